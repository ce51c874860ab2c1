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
	"github.com/windlass-go/windlass/broker/internal/batches"
)

// scripted answers every transaction request with the error that fail returns, or else
// applies it.
type scripted struct {
	pb.KVClient
	fail func() error
	sent int
}

func (s *scripted) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	s.sent++
	if err := s.fail(); err != nil {
		return nil, err
	}
	answer := granted(r)
	answer.Header = &pb.ResponseHeader{Revision: int64(s.sent)}
	return answer, nil
}

// granted returns the answer to a request of puts.
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
	return New(clientv3.NewCtxClient(ctx), Options{Address: "script", Txns: s})
}

// TestACallIsSentOnlyOnce has a call fail whose third transaction shares a key with the first.
// Etcd reports a full store also for a write that it has applied: sending that again would
// conflict with itself. A transaction must not overtake one of unknown outcome.
func TestACallIsSentOnlyOnce(t *testing.T) {
	for _, test := range []struct {
		err, kind error
		unknown   bool
		sent      int
	}{
		{status.Error(codes.Unavailable, "error reading from server: EOF"), broker.ErrUnavailable, true, 1},
		{rpctypes.ErrGRPCNoSpace, broker.ErrNoSpace, true, 1},
		{rpctypes.ErrGRPCRequestTooManyRequests, broker.ErrUnavailable, false, 2},
	} {
		s := &scripted{fail: func() error { return test.err }}
		results := s.broker(t.Context()).Commit(t.Context(), then(broker.Put("/a", nil)), then(broker.Put("/b", nil)), then(broker.Put("/a", nil)))
		for i, r := range results[:2] {
			if !errors.Is(r.Err, test.kind) || broker.MaybeApplied(r.Err) != test.unknown {
				t.Errorf("transaction %d: %v; may have been applied: %t", i, r.Err, broker.MaybeApplied(r.Err))
			}
		}
		if err := results[2].Err; s.sent != test.sent || errors.Is(err, batches.ErrNotSent) != test.unknown || broker.MaybeApplied(err) {
			t.Errorf("%v: %d requests: %+v", test.err, s.sent, results)
		}
	}
}

func TestARequestIsRepeatedUntilThereIsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elected := time.Now().Add(2 * time.Second)
		s := &scripted{fail: func() error {
			if time.Now().Before(elected) {
				return rpctypes.ErrGRPCNoLeader
			}
			return nil
		}}
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

// TestFits_OnlyWhatAnswersEveryOperationOfTheBranch has damaged answers.
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
