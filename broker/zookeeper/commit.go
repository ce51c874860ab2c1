package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/internal/batches"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

var errBusy = errors.New("others kept changing the same keys")

// Commit implements broker.Broker.
//
//	look      read the keys and epochs of many transactions, all at one revision
//	decide    evaluate the conditions here
//	send      one multi for each transaction that writes: checks that what was read
//	          still holds, and the writes
//
// A transaction that conflicts with another one is read again. So is one that writes
// nothing, or is refused, unless it was read behind a barrier: its result could be stale.
func (b *Broker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	c := commit{broker: b, txns: txns, results: make([]broker.Result, len(txns))}
	entered, leave, err := b.enter(ctx, "commit", "")
	if err == nil {
		defer leave()
	}
	batches.Commit(txns, c.results, func(batch []int) {
		if err != nil {
			c.fail(ctx, err, batch...)
		} else {
			c.commitBatch(entered, batch)
		}
	})
	return c.results
}

// commit is one call of Commit.
type commit struct {
	broker  *Broker
	txns    []broker.Txn
	results []broker.Result
}

// fail records the error of some transactions.
func (c *commit) fail(ctx context.Context, err error, members ...int) {
	for _, i := range members {
		key := batches.KeyOf(c.txns[i])
		e := *c.broker.failure(ctx, "commit", key, err)
		e.Key = cmp.Or(e.Key, key)
		c.results[i] = broker.Result{Err: &e}
	}
}

// failUnsent is fail for transactions of which nothing was sent.
func (c *commit) failUnsent(ctx context.Context, err error, members ...int) {
	e := *c.broker.failure(ctx, "commit", "", err)
	e.Maybe = false
	c.fail(ctx, &e, members...)
}

// conflictPauseMax limits the pause before a transaction is tried again after a conflict.
const conflictPauseMax = 20 * time.Millisecond

// commitBatch commits transactions that have no key in common. Many take longer together
// than a single request may, so it gives up only when none has succeeded for that time.
func (c *commit) commitBatch(ctx context.Context, batch []int) {
	progress := time.Now()
	for attempt := 0; len(batch) > 0; attempt++ {
		if attempt > 1 {
			pause.For(ctx, rand.N(min(time.Millisecond<<min(attempt, 10), conflictPauseMax)))
		}
		if attempt > 1 && time.Since(progress) > c.broker.config.RequestTimeout {
			c.fail(ctx, &wire.Error{Cause: errBusy}, batch...)
			return
		}
		l, err := c.broker.linked(ctx)
		if err != nil {
			c.fail(ctx, err, batch...)
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
	// multisMax limits the transactions that are read and sent together.
	multisMax = 256
	// lookMax limits their keys to as many as the largest transaction can have: the
	// values of all of them fit into one reply.
	lookMax = 3 * broker.TxnOpsMax
)

// divide divides a batch into parts that one request each can read.
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

// round reads, decides and sends transactions, and returns those to try again.
func (c *commit) round(ctx context.Context, l *link, members []int, now bool) (again []int) {
	b := c.broker
	r := &reading{paths: map[string]bool{}, epochs: map[string]bool{}, trees: map[string]bool{}}
	for _, i := range members {
		r.add(b.layout, c.txns[i])
		now = now || !writes(c.txns[i])
	}
	s, err := b.look(ctx, l, r, now)
	if err != nil {
		c.failUnsent(ctx, err, members...)
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
			c.fail(ctx, err, i)
		default:
			c.results[i] = broker.Result{OK: !p.refused, Reads: p.reads, Revision: broker.Revision(s.zxid)}
		}
	}
	blocked, err := b.makeParents(ctx, l, creates)
	if err != nil {
		c.failUnsent(ctx, err, slices.Collect(maps.Keys(plans))...)
		return again
	}
	if len(blocked) == 0 {
		return append(again, c.send(ctx, l, members, plans)...)
	}
	for i, p := range plans { // even those that are not blocked still lack parents
		if now && p.isBlocked(blocked) {
			c.fail(ctx, broker.NewError("commit", "", broker.ErrInvalid, errBelowSession), i)
		} else {
			again = append(again, i)
		}
	}
	return again
}

var errBelowSession = errors.New("there is a key of a session above, and nothing may be put below it")

func writes(txn broker.Txn) bool {
	return slices.ContainsFunc(txn.Then, func(op broker.Op) bool { return op.Kind != broker.OpRead })
}

// look reads the keys, epochs and subtrees that are needed to decide transactions.
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
	var requests []wire.Request
	if now {
		requests = append(requests, b.layout.barrier())
	}
	requests = append(requests, wire.MultiRead(reads))
	for {
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

// treeLarge is the number of znodes from which empty directories in subtrees are deleted
// beforehand, so that they take no space in the request.
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
		epochs := map[string]int32{} // read again for each walk, so that the next one makes progress
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
			maps.Copy(epochs, s.epochs) // an older version covers more time
			s.epochs = epochs
			return nil
		}
		if err := b.removeDirectories(ctx, l, empty, epochs); err != nil {
			return err
		}
	}
}

// send sends plans, those of a session on its own connection.
func (c *commit) send(ctx context.Context, l *link, order []int, plans map[int]*plan) (again []int) {
	groups := map[broker.SessionID][]int{}
	for _, i := range order {
		p := plans[i]
		if p == nil {
			continue
		}
		if len(p.prepare) > 0 {
			if err := c.prepare(ctx, p); err != nil {
				c.failUnsent(ctx, err, i)
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
			answers, sent := c.sendGroup(ctx, l, id, members, plans)
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

// sendGroup sends plans of one session, or of none, and returns the answers and which of
// the members were sent.
func (c *commit) sendGroup(ctx context.Context, l *link, id broker.SessionID, members []int, plans map[int]*plan) ([]wire.Answer, []int) {
	b, conn := c.broker, l.conn
	if id != 0 {
		var err error
		if conn, err = b.attach(ctx, id); err != nil {
			c.failUnsent(ctx, err, members...)
			return nil, nil
		}
	}
	var requests []wire.Request
	var sent []int
	for _, i := range members {
		p := plans[i]
		first, err := b.writeRecord(ctx, l, p.record.slim())
		if err != nil {
			c.failUnsent(ctx, err, i)
			continue
		}
		request := wire.Multi(p.ops(first))
		if size := request.Size(); size > b.config.MessageBytes {
			c.fail(ctx, broker.NewError("commit", "", broker.ErrTooLarge,
				fmt.Errorf("a request of %d bytes; the servers take %d (Config.MessageBytes, their jute.maxbuffer)", size, b.config.MessageBytes)), i)
			continue
		}
		requests = append(requests, request)
		sent = append(sent, i)
	}
	bounded, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	return conn.DoAll(bounded, requests...), sent
}

// take converts an answer to a result, and reports whether to try again instead.
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
				b.dirs.clear()
			}
			return true
		}
		a.Err = code
	}
	c.fail(ctx, a.Err, i)
	return false
}

// prepare creates the znodes of the puts with further sessions, as directories, so that
// they are invisible until the transaction turns them into keys.
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
		first, err := b.writeQuiet(ctx, l, path)
		if err != nil {
			return err
		}
		ops := []wire.Op{first}
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
			b.dirs.clear()
			b.slots.forget()
		default:
			return code
		}
	}
	return nil
}
