package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// scripted answers the n-th transaction request with the n-th function, and
// those after the last as the last one does.
type scripted struct {
	pb.KVClient
	script []func(*pb.TxnRequest) error
	sent   int
}

func (s *scripted) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	step := s.script[min(s.sent, len(s.script)-1)]
	s.sent++
	if err := step(r); err != nil {
		return nil, err
	}
	answer := granted(r)
	answer.Header = &pb.ResponseHeader{Revision: int64(s.sent)}
	return answer, nil
}

// granted is the answer to a request of puts.
func granted(r *pb.TxnRequest) *pb.TxnResponse {
	answer := &pb.TxnResponse{Succeeded: true}
	for _, op := range r.Success {
		found := &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
		if nested := op.GetRequestTxn(); nested != nil {
			found.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: granted(nested)}
		}
		answer.Responses = append(answer.Responses, found)
	}
	return answer
}

func (s *scripted) broker(ctx context.Context) *Broker {
	client := clientv3.NewCtxClient(ctx)
	return New(client, Options{Address: "script", Txns: s})
}

func answerWith(err error) func(*pb.TxnRequest) error {
	return func(*pb.TxnRequest) error { return err }
}

func TestNothingOvertakesATransactionOfUnknownOutcome(t *testing.T) {
	s := &scripted{script: []func(*pb.TxnRequest) error{
		answerWith(status.Error(codes.Unavailable, "error reading from server: EOF")), answerWith(nil),
	}}
	results := s.broker(t.Context()).Commit(t.Context(), then(broker.Put("/a", nil)), then(broker.Put("/b", nil)), then(broker.Put("/a", nil)))
	for i, maybe := range []bool{true, true, false} {
		if err := results[i].Err; !errors.Is(err, broker.ErrUnavailable) || broker.MaybeApplied(err) != maybe {
			t.Errorf("transaction %d: %v; may have been applied: %t", i, err, maybe)
		}
	}
	if s.sent != 1 || !errors.Is(results[2].Err, errNotSent) {
		t.Errorf("%d requests: %+v", s.sent, results)
	}
}

func TestARequestIsRepeatedUntilThereIsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elected := time.Now().Add(2 * time.Second)
		s := &scripted{script: []func(*pb.TxnRequest) error{func(*pb.TxnRequest) error {
			if time.Now().Before(elected) {
				return rpctypes.ErrGRPCNoLeader
			}
			return nil
		}}}
		b := s.broker(t.Context())
		if r := b.Commit(t.Context(), then(broker.Put("/a", nil)))[0]; r.Err != nil || !r.OK {
			t.Errorf("%+v", r)
		}
		elected = time.Now().Add(time.Hour)
		began := time.Now()
		_, err := broker.CommitOne(t.Context(), b, then(broker.Put("/a", nil)))
		if !errors.Is(err, broker.ErrNoQuorum) || broker.MaybeApplied(err) || time.Since(began) != RequestTimeoutDefault {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestTooManyRequestsAreNotMadeMore(t *testing.T) {
	s := &scripted{script: []func(*pb.TxnRequest) error{answerWith(rpctypes.ErrGRPCRequestTooManyRequests)}}
	results := s.broker(t.Context()).Commit(t.Context(), then(broker.Put("/a", nil)), then(broker.Put("/b", nil)))
	if s.sent != 1 || !errors.Is(results[0].Err, broker.ErrUnavailable) || broker.MaybeApplied(results[0].Err) {
		t.Errorf("%d requests: %+v", s.sent, results)
	}
}

// TestAFullStoreMayHaveTakenTheWrite: etcd applies what meets the quota only
// when it is applied, and reports it as it reports a refusal. To send it again
// would find its own write in the way.
func TestAFullStoreMayHaveTakenTheWrite(t *testing.T) {
	s := &scripted{script: []func(*pb.TxnRequest) error{answerWith(rpctypes.ErrGRPCNoSpace)}}
	results := s.broker(t.Context()).Commit(t.Context(), then(broker.Put("/a", nil)), then(broker.Put("/b", nil)))
	for i, r := range results {
		if !errors.Is(r.Err, broker.ErrNoSpace) || !broker.MaybeApplied(r.Err) {
			t.Errorf("transaction %d: %v", i, r.Err)
		}
	}
	if s.sent != 1 {
		t.Errorf("%d requests", s.sent)
	}
}

// TestFits_OnlyWhatAnswersEveryOperationOfTheBranch has answers as damage makes them.
func TestFits_OnlyWhatAnswersEveryOperationOfTheBranch(t *testing.T) {
	get := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
	put := &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
	deleted := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}}
	answer := func(succeeded bool, ops ...*pb.ResponseOp) *pb.TxnResponse {
		return &pb.TxnResponse{Succeeded: succeeded, Responses: ops}
	}
	in := func(a *pb.TxnResponse) *pb.ResponseOp {
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: a}}
	}
	c := &commit{txns: []broker.Txn{
		{If: []broker.Cond{broker.Exists("a")}, Then: []broker.Op{broker.Put("a", nil), broker.Read("b"), broker.Delete("c")}, Else: []broker.Op{broker.Read("a")}},
		{If: []broker.Cond{broker.Exists("d")}},
	}}
	for _, test := range []struct {
		name    string
		members []int
		answer  *pb.TxnResponse
		want    bool
	}{
		{"as asked", []int{0}, answer(true, get, put, deleted), true},
		{"else", []int{0}, answer(false, get), true},
		{"success that was lost", []int{0}, answer(false, get, put, deleted), false},
		{"success from nowhere", []int{0}, answer(true, get), false},
		{"one missing", []int{0}, answer(true, get, put), false},
		{"another one", []int{0}, answer(true, get, put, put), false},
		{"one without a kind", []int{0}, answer(true, get, put, &pb.ResponseOp{}), false},
		{"conditions alone", []int{1}, answer(true), true},
		{"conditions alone that do not hold", []int{1}, answer(false, get), true},
		{"conditions alone, success from nowhere", []int{1}, answer(true, get), false},
		{"nested", []int{0, 1}, answer(true, in(answer(false, get)), in(answer(false))), true},
		{"nested, without one", []int{0, 1}, answer(true, in(answer(false, get))), false},
		{"nested, one that does not fit", []int{0, 1}, answer(true, in(answer(true, get)), in(answer(false))), false},
		{"nested, one of another kind", []int{0, 1}, answer(true, in(answer(false, get)), get), false},
		{"refused without a condition", []int{0, 1}, answer(false), false},
	} {
		if got := fits(c.build(test.members), test.answer); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
