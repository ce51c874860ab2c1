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

// requestsInFlightMax bounds the requests that one Commit has under way. etcd
// applies them one after the other anyway; a few hide the way there and back.
const requestsInFlightMax = 4

// errNotSent is the cause for a transaction that had to wait for another one
// whose outcome then was unknown.
var errNotSent = errors.New("not sent, because an earlier transaction of this call has an unknown outcome")

// Commit implements broker.Broker.
//
//	transactions  -> batches    those with a key in common, one after the other
//	batch         -> requests   as many as fit, four in flight
//	request       -> results    refused as a whole? then one by one
func (b *Broker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	results := make([]broker.Result, len(txns))
	pending := make([]int, 0, len(txns))
	for i, txn := range txns {
		if err := txn.Validate(); err != nil {
			results[i].Err = err
			continue
		}
		pending = append(pending, i)
	}
	c := commit{broker: b, txns: txns, results: results}
	for _, batch := range batches.Divide(txns, pending) {
		if c.unknown {
			// Sending it would let it overtake the one it follows.
			for _, i := range batch {
				results[i].Err = broker.NewError("commit", batches.KeyOf(txns[i]), broker.ErrUnavailable, errNotSent)
			}
			continue
		}
		c.sendBatch(ctx, batch)
	}
	return results
}

// commit is one call of Commit.
type commit struct {
	broker *Broker
	txns   []broker.Txn
	// results has one entry for each transaction; requests in flight write to
	// different ones.
	results []broker.Result
	// unknown is set when a transaction has an unknown outcome.
	unknown bool
}

// sendBatch commits transactions that have no key in common.
func (c *commit) sendBatch(ctx context.Context, batch []int) {
	again := c.send(ctx, pack(c.txns, batch))
	if len(again) > 0 {
		alone := make([][]int, len(again))
		for n, i := range again {
			alone[n] = []int{i}
		}
		c.send(ctx, alone)
	}
	for _, i := range batch {
		if err := c.results[i].Err; err != nil && broker.MaybeApplied(err) {
			c.unknown = true
		}
	}
}

// send makes the requests, a few at a time, and returns the transactions of
// those that were refused as a whole because of one of them.
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
	_ = flight.Wait() // no request returns an error; they are in the results
	return again
}

// txnOptions are those that the client sets for its own calls.
var txnOptions = []grpc.CallOption{
	grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 * requestBytesMax), grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// request sends transactions as one request and fills in their results. It
// returns them when they were refused and can be tried one by one.
func (c *commit) request(ctx context.Context, members []int) (again []int) {
	key := ""
	if len(members) == 1 {
		key = batches.KeyOf(c.txns[members[0]])
	}
	request := c.build(members)
	more := hedging{}
	if !slices.ContainsFunc(members, func(i int) bool { return writes(c.txns[i]) }) {
		more = c.broker.toAnother() // it may be made twice
	}
	answer, e := anywhere(ctx, c.broker, "commit", key, more, func(ctx context.Context) (*pb.TxnResponse, error) {
		answer, err := c.broker.txns.Txn(ctx, request, txnOptions...)
		return answer, clientv3.ContextError(ctx, err)
	})
	if e != nil {
		if len(members) > 1 && concernsOne(e) {
			return members
		}
		for _, i := range members {
			c.results[i].Err = e
		}
		return nil
	}
	revision := broker.Revision(answer.GetHeader().GetRevision())
	if revision <= 0 || !fits(request, answer) {
		e := broker.NewError("commit", key, broker.ErrUnavailable, errMisfit)
		e.Maybe = true
		for _, i := range members {
			c.results[i].Err = e
		}
		return nil
	}
	if len(members) == 1 {
		c.results[members[0]] = result(c.txns[members[0]], answer, revision)
		return nil
	}
	for n, i := range members {
		// A nested answer has no revision of its own: all of a request's
		// writes are of the same one, the request's.
		c.results[i] = result(c.txns[i], answer.Responses[n].GetResponseTxn(), revision)
	}
	return nil
}

// errMisfit is an answer that cannot be one to its request.
var errMisfit = errors.New("the answer does not fit the request")

// concernsOne tells whether a refusal may be about a single transaction of the
// request rather than about the broker's state.
func concernsOne(e *broker.Error) bool {
	return !e.Maybe && e.Kind != broker.ErrUnavailable && e.Kind != broker.ErrNoQuorum && e.Kind != broker.ErrClosed
}
