package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/internal/batches"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

var (
	// errNotSent is the cause for a transaction that had to wait for another one
	// whose outcome then was unknown.
	errNotSent = errors.New("not sent, because an earlier transaction of this call has an unknown outcome")
	errBusy    = errors.New("others kept changing the same keys")
)

// Commit implements broker.Broker.
//
//	look      read the keys and epochs of many transactions, all at one moment
//	decide    evaluate the conditions here
//	send      one multi for each transaction that writes: what was seen still holds,
//	          and the writes
//
// A transaction with which another one interfered is read again. So is a transaction
// that writes nothing, or is refused, unless it was read behind a barrier: its result
// would otherwise be outdated.
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
	entered, leave, err := b.enter(ctx, "commit", "")
	if err != nil {
		c.failAll(ctx, pending, err)
		return results
	}
	defer leave()
	for _, batch := range batches.Divide(txns, pending) {
		for _, i := range batch {
			if c.unknown {
				// Sending it would let it overtake the one it follows.
				results[i].Err = broker.NewError("commit", batches.KeyOf(txns[i]), broker.ErrUnavailable, errNotSent)
			}
		}
		if !c.unknown {
			c.commitBatch(entered, batch)
		}
	}
	return results
}

// commit is one call of Commit.
type commit struct {
	broker  *Broker
	txns    []broker.Txn
	results []broker.Result
	// unknown is set when a transaction has an unknown outcome.
	unknown bool
}

func (c *commit) failAll(ctx context.Context, members []int, err error) {
	for _, i := range members {
		c.fail(ctx, i, err)
	}
}

func (c *commit) fail(ctx context.Context, i int, err error) {
	e := *c.broker.failure(ctx, "commit", batches.KeyOf(c.txns[i]), err)
	if e.Key == "" {
		e.Key = batches.KeyOf(c.txns[i])
	}
	c.results[i] = broker.Result{Err: &e}
	c.unknown = c.unknown || e.Maybe
}

// conflictPauseMax bounds the pause before a transaction is looked at again.
const conflictPauseMax = 20 * time.Millisecond

// commitBatch commits transactions that have no key in common. It gives up when none of them
// has got through for as long as a request may take: many take longer together.
func (c *commit) commitBatch(ctx context.Context, batch []int) {
	progress := time.Now()
	for attempt := 0; len(batch) > 0; attempt++ {
		if attempt > 1 {
			pause.For(ctx, rand.N(min(time.Millisecond<<min(attempt, 10), conflictPauseMax)))
		}
		if attempt > 1 && time.Since(progress) > c.broker.config.RequestTimeout {
			c.failAll(ctx, batch, &wire.Error{Cause: errBusy})
			return
		}
		l, err := c.broker.linked(ctx)
		if err != nil {
			c.failAll(ctx, batch, err)
			return
		}
		var again []int
		for _, members := range c.divide(batch) {
			left := c.round(ctx, l, members, attempt > 0)
			if len(left) < len(members) {
				progress = time.Now()
			}
			again = append(again, left...)
		}
		batch = again
	}
}

const (
	// multisMax is how many transactions are looked at and sent together.
	multisMax = 256
	// lookMax is how many keys they have, which is as many as the largest transaction
	// can have: the values of all of them fit in an answer.
	lookMax = 3 * broker.TxnOpsMax
)

// divide makes parts that can be read by one request each.
func (c *commit) divide(batch []int) [][]int {
	var parts [][]int
	size := 0
	for _, i := range batch {
		txn := c.txns[i]
		keys := len(txn.If) + len(txn.Then) + len(txn.Else)
		if len(parts) == 0 || size+keys > lookMax || len(parts[len(parts)-1]) >= multisMax {
			parts, size = append(parts, nil), 0
		}
		size += keys
		parts[len(parts)-1] = append(parts[len(parts)-1], i)
	}
	return parts
}

// round takes transactions one step further, and returns those to try again.
func (c *commit) round(ctx context.Context, l *link, members []int, now bool) (again []int) {
	b := c.broker
	r := newReading()
	for _, i := range members {
		r.add(b.layout, c.txns[i])
		now = now || !writes(c.txns[i])
	}
	s, err := b.look(ctx, l, r, now)
	if err != nil {
		c.failReading(ctx, members, err)
		return nil
	}
	plans := map[int]*plan{}
	var creates []string
	for _, i := range members {
		p, err := decide(b.layout, b.acls, c.txns[i], s)
		switch {
		case err == nil && p.writing():
			plans[i] = p
			creates = append(creates, p.orphans()...)
		case !now:
			again = append(again, i)
		case err != nil:
			c.fail(ctx, i, err)
		default:
			c.results[i] = broker.Result{OK: !p.refused, Reads: p.reads, Revision: broker.Revision(s.zxid)}
		}
	}
	blocked, err := b.makeParents(ctx, l, creates)
	if err != nil {
		for i := range plans {
			c.failReading(ctx, []int{i}, err)
		}
		return again
	}
	if len(blocked) == 0 {
		return append(again, c.send(ctx, l, members, plans)...)
	}
	for i, p := range plans { // those that are not blocked have got no parents yet
		if now && p.isBlocked(blocked) {
			c.fail(ctx, i, broker.NewError("commit", batches.KeyOf(c.txns[i]), broker.ErrInvalid, errBelowSession))
		} else {
			again = append(again, i)
		}
	}
	return again
}

var errBelowSession = errors.New("there is a key of a session above, and nothing may be put below it")

// failReading is for errors of what writes no key.
func (c *commit) failReading(ctx context.Context, members []int, err error) {
	for _, i := range members {
		e := *c.broker.failure(ctx, "commit", batches.KeyOf(c.txns[i]), err)
		e.Maybe = false
		c.results[i] = broker.Result{Err: &e}
	}
}

func writes(txn broker.Txn) bool {
	for _, op := range txn.Then {
		if op.Kind != broker.OpRead {
			return true
		}
	}
	return false
}

// look reads what a part of a batch needs.
func (b *Broker) look(ctx context.Context, l *link, r *reading, now bool) (sight, error) {
	var paths, epochs []string
	var reads []wire.Read
	for path := range r.paths {
		paths = append(paths, path)
		reads = append(reads, wire.GetData(path))
	}
	for path := range r.epochs {
		epochs = append(epochs, path)
		reads = append(reads, wire.GetData(path))
	}
	s := sight{znodes: map[string]znode{}, epochs: map[string]int32{}, trees: map[string][]walked{}}
	for {
		request := wire.MultiRead(reads)
		requests := []wire.Request{request}
		if now {
			requests = []wire.Request{b.layout.barrier(), request}
		}
		var last wire.Answer
		for _, last = range l.do(ctx, requests...) {
			if last.Err != nil {
				return s, last.Err
			}
		}
		s.zxid = last.Reply.Zxid
		var missing []string
		for i, result := range last.Reply.Results {
			z, err := toZnode(result)
			switch {
			case err != nil:
				return s, err
			case i < len(paths):
				s.znodes[paths[i]] = z
			case !z.there:
				missing = append(missing, epochs[i-len(paths)])
			default:
				s.epochs[epochs[i-len(paths)]] = z.stat.Version
			}
		}
		if len(missing) == 0 {
			break
		}
		if err := b.makeEpochs(ctx, l, missing); err != nil {
			return s, err
		}
	}
	err := b.lookAtTrees(ctx, l, r, &s)
	return s, err
}

// treeLarge is from how many znodes on subtrees are rid of empty directories before they
// are deleted, so that they take no room in the request.
const treeLarge = 2000

// lookAtTrees reads the subtrees that are to be deleted.
func (b *Broker) lookAtTrees(ctx context.Context, l *link, r *reading, s *sight) error {
	var roots []string
	for path := range r.trees {
		if s.znodes[path].stat.NumChildren > 0 {
			roots = append(roots, path)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	for {
		w, err := b.walk(ctx, l, false, roots...)
		if err != nil {
			return err
		}
		epochs := map[string]int32{} // of each walk its own, so that the next one gets further
		if err := b.readDirectories(ctx, l, w.nodes, epochs); err != nil {
			return err
		}
		var empty []walked
		for _, n := range w.nodes {
			if n.isEmptyDirectory() {
				empty = append(empty, n)
			}
		}
		if len(empty) == 0 || len(w.nodes) < treeLarge {
			for _, n := range w.nodes {
				s.trees[n.root] = append(s.trees[n.root], n)
			}
			maps.Copy(epochs, s.epochs) // the older one proves more
			s.epochs = epochs
			return nil
		}
		if err := b.removeDirectories(ctx, l, empty, epochs); err != nil {
			return err
		}
	}
}

// send applies plans. Those of one session go along its own connection.
func (c *commit) send(ctx context.Context, l *link, order []int, plans map[int]*plan) (again []int) {
	groups := map[broker.SessionID][]int{}
	for _, i := range order {
		p := plans[i]
		if p == nil {
			continue
		}
		if len(p.prepare) > 0 {
			if err := c.prepare(ctx, p); err != nil {
				c.failReading(ctx, []int{i}, err)
				continue
			}
			again = append(again, i)
			continue
		}
		groups[p.session] = append(groups[p.session], i)
	}
	var mu sync.Mutex
	var flight sync.WaitGroup
	for id, members := range groups {
		flight.Go(func() {
			conn := l.conn
			if id != 0 {
				s, err := c.broker.attach(ctx, id)
				if err != nil {
					mu.Lock()
					c.failReading(ctx, members, err)
					mu.Unlock()
					return
				}
				conn = s
			}
			answers, sent := c.sendGroup(ctx, l, conn, members, plans)
			mu.Lock()
			defer mu.Unlock()
			for n, i := range sent {
				if c.take(ctx, l, i, plans[i], answers[n]) {
					again = append(again, i)
				}
			}
		})
	}
	flight.Wait()
	return again
}

// sendGroup sends plans along one connection, and returns the answers and which of
// the members were sent.
func (c *commit) sendGroup(ctx context.Context, l *link, conn *wire.Conn, members []int, plans map[int]*plan) ([]wire.Answer, []int) {
	b := c.broker
	var requests []wire.Request
	var sent []int
	for _, i := range members {
		p := plans[i]
		slot, err := b.takeSlot(ctx, l)
		if err != nil {
			c.failReading(ctx, []int{i}, err)
			continue
		}
		request := wire.Multi(p.ops(slot, p.record.slim().encode()))
		if size := request.Size(); size > b.config.MessageBytes {
			c.failReading(ctx, []int{i}, broker.NewError("commit", batches.KeyOf(c.txns[i]), broker.ErrTooLarge,
				fmt.Errorf("a request of %d bytes; the servers take %d (Config.MessageBytes, their jute.maxbuffer)", size, b.config.MessageBytes)))
			continue
		}
		requests = append(requests, request)
		sent = append(sent, i)
	}
	bounded, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	return conn.DoAll(bounded, requests...), sent
}

// take makes the result of an answer, and tells whether to try again.
func (c *commit) take(ctx context.Context, l *link, i int, p *plan, a wire.Answer) (again bool) {
	b := c.broker
	if a.Err == nil {
		n, code := a.Reply.Failed()
		if code == wire.CodeOK {
			c.results[i] = broker.Result{OK: true, Reads: p.reads, Revision: broker.Revision(a.Reply.Zxid)}
			return false
		}
		switch code {
		case wire.CodeNoNode, wire.CodeNodeExists, wire.CodeBadVersion, wire.CodeNotEmpty:
			if n == 0 {
				b.slots.forget()
			}
			if code == wire.CodeNoNode {
				b.dirs.forget()
			}
			return true
		}
		a.Err = code
	}
	c.fail(ctx, i, a.Err)
	return false
}

// prepare creates the znodes of the puts with a second session, as directories, so
// that nobody sees them before the transaction makes keys of them.
func (c *commit) prepare(ctx context.Context, p *plan) error {
	b := c.broker
	for _, op := range p.prepare {
		conn, err := b.attach(ctx, op.Session)
		if err != nil {
			return err
		}
		l, err := b.linked(ctx)
		if err != nil {
			return err
		}
		path := b.layout.path(op.Key)
		epochs := b.layout.directoryEpochs(path)
		if err := b.makeEpochs(ctx, l, epochs); err != nil {
			return err
		}
		slot, err := b.takeSlot(ctx, l)
		if err != nil {
			return err
		}
		r := record{changes: []change{{kind: changeQuiet, events: 1, path: path[len(b.layout.chroot):]}}}
		ops := []wire.Op{wire.SetData(slot, r.encode(), wire.AnyVersion)}
		for _, epoch := range epochs {
			ops = append(ops, wire.SetData(epoch, nil, wire.AnyVersion))
		}
		reply, err := conn.Do(ctx, wire.Multi(append(ops, wire.Create(path, directory, wire.Ephemeral, b.acls))))
		if err != nil {
			return err
		}
		switch _, code := reply.Failed(); code {
		case wire.CodeOK, wire.CodeNodeExists:
		case wire.CodeNoNode: // its parent is gone, or the slot
			b.dirs.forget()
			b.slots.forget()
		default:
			return code
		}
	}
	return nil
}
