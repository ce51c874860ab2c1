package etcd

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/internal/batches"
)

// requestsInFlightMax limits the concurrent requests of one Commit. etcd applies them one
// after the other anyway; a few hide the network latency.
const requestsInFlightMax = 4

// Commit implements broker.Broker.
//
//	transactions  -> batches    those with a key in common, one after the other
//	batch         -> requests   as many as fit, four in flight
//	request       -> results    if refused as a whole, one by one
func (b *Broker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	c := commit{broker: b, txns: txns, results: make([]broker.Result, len(txns))}
	batches.Commit(txns, c.results, func(batch []int) {
		if again := c.send(ctx, pack(txns, batch)); len(again) > 0 {
			c.send(ctx, slices.Collect(slices.Chunk(again, 1)))
		}
	})
	return c.results
}

// commit is one call of Commit.
type commit struct {
	broker *Broker
	txns   []broker.Txn
	// results has one entry for each transaction; requests in flight write to
	// different ones.
	results []broker.Result
}

// send makes the requests, a few at a time, and returns the transactions of those that
// were refused as a whole because of one of them.
func (c *commit) send(ctx context.Context, requests [][]int) (again []int) {
	if len(requests) == 1 {
		return c.request(ctx, requests[0])
	}
	var mu sync.Mutex
	var flight errgroup.Group
	flight.SetLimit(requestsInFlightMax)
	for _, members := range requests {
		flight.Go(func() error {
			refused := c.request(ctx, members)
			mu.Lock()
			again = append(again, refused...)
			mu.Unlock()
			return nil
		})
	}
	_ = flight.Wait() // the errors are in the results
	return again
}

// txnOptions are the options that the client sets for its own calls.
var txnOptions = []grpc.CallOption{
	grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 * requestBytesMax), grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// request sends transactions as one request and sets their results. It returns them if
// they were refused and can be tried one by one.
func (c *commit) request(ctx context.Context, members []int) (again []int) {
	key := ""
	if len(members) == 1 {
		key = batches.KeyOf(c.txns[members[0]])
	}
	request := c.build(members)
	more := hedging{}
	if !slices.ContainsFunc(members, func(i int) bool { return writes(c.txns[i]) }) {
		more = toAnother // it may be sent twice
	}
	answer, err := anywhere(ctx, c.broker, "commit", key, more, func(ctx context.Context) (*pb.TxnResponse, error) {
		answer, err := c.broker.txns.Txn(ctx, request, txnOptions...)
		return answer, clientv3.ContextError(ctx, err)
	})
	revision := broker.Revision(answer.GetHeader().GetRevision()) // nested answers have none
	if err == nil && (revision <= 0 || !fits(request, answer)) {
		err = &broker.Error{Op: "commit", Key: key, Kind: broker.ErrUnavailable, Cause: errMisfit, Maybe: true}
	}
	if err != nil && len(members) > 1 && concernsOne(err) {
		return members
	}
	for n, i := range members {
		switch {
		case err != nil:
			c.results[i].Err = err
		case len(members) == 1:
			c.results[i] = result(c.txns[i], answer, revision)
		default:
			c.results[i] = result(c.txns[i], answer.Responses[n].GetResponseTxn(), revision)
		}
	}
	return nil
}

// errMisfit is the cause if an answer does not match its request.
var errMisfit = errors.New("the answer does not fit the request")

// concernsOne reports whether a refusal may be about a single transaction of the request
// rather than about the broker's state.
func concernsOne(err error) bool {
	return !broker.MaybeApplied(err) && !errors.Is(err, broker.ErrUnavailable) && !errors.Is(err, broker.ErrNoQuorum) && !errors.Is(err, broker.ErrClosed)
}
