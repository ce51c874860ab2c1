package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// sweepInterval is how often a broker looks for empty directories where it saw
	// something deleted. ZooKeeper's containers would go by themselves, but nobody
	// could tell whether one that went was a key.
	sweepInterval = 30 * time.Second
	// emptiedMax and dueMax bound what is remembered. What is forgotten is found by
	// the next listing.
	emptiedMax = 10_000
	dueMax     = 100_000
	// dueRetry is the time between two attempts to delete a key whose time is over.
	dueRetry = time.Second
)

// chore is what is left to do when nobody waits for it: to delete keys whose TTL is
// over, which ZooKeeper does not, and directories that are empty. Every broker does
// it for all that it sees, and the first one wins.
type chore struct {
	mu sync.Mutex
	// due are the keys with a TTL.
	due map[string]dueKey
	// empty are directories that lost a child.
	empty map[string]bool
	// offset is the leader's clock less ours, or somewhat less, once it has ticked.
	offset time.Duration
	ticked bool
	// wake has a capacity of 1: due has something new.
	wake chan struct{}
}

// dueKey is a key to delete, if it is still of the revision.
type dueKey struct {
	at       time.Duration
	revision broker.Revision
}

func (c *chore) init() {
	c.due, c.empty, c.wake = map[string]dueKey{}, map[string]bool{}, make(chan struct{}, 1)
}

// note remembers that a key vanishes, counted from now on but for its age.
func (c *chore) note(b *Broker, kv broker.KV, ttl, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ttl == 0 {
		delete(c.due, kv.Key)
		return
	}
	if known, ok := c.due[kv.Key]; ok && known.revision >= kv.Modified || len(c.due) >= dueMax {
		return
	}
	c.due[kv.Key] = dueKey{at: b.now() + ttl - age, revision: kv.Modified}
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// emptied remembers a directory that lost a child.
func (c *chore) emptied(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.empty) < emptiedMax {
		c.empty[path] = true
	}
}

// tick notes the time of the servers' leader, in milliseconds.
func (c *chore) tick(b *Broker, mtime int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset := time.Duration(mtime)*time.Millisecond - b.now(); !c.ticked || offset < c.offset {
		c.offset, c.ticked = offset, true
	}
}

// age is how long ago something was written at the leader's time, or less.
func (c *chore) age(b *Broker, mtime int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ticked {
		return 0
	}
	return max(0, b.now()+c.offset-time.Duration(mtime)*time.Millisecond)
}

// next returns the keys whose time is over, and how long until there are more.
func (c *chore) next(now time.Duration) (over map[string]dueKey, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	over, wait = map[string]dueKey{}, sweepInterval
	for key, due := range c.due {
		if due.at <= now {
			over[key] = due
		} else {
			wait = min(wait, due.at-now)
		}
	}
	return over, wait
}

// settle takes a key off the list, or puts off what failed.
func (c *chore) settle(key string, due dueKey, retry time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.due[key] != due:
	case retry > 0:
		due.at += retry
		c.due[key] = due
	default:
		delete(c.due, key)
	}
}

func (c *chore) takeEmpty() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for path := range c.empty {
		all = append(all, path)
	}
	clear(c.empty)
	return all
}

// sweep does the chores until the broker is closed.
func (b *Broker) sweep() {
	directoriesAt := b.now() + rand.N(sweepInterval) // not all brokers at once
	for b.life.Err() == nil {
		over, wait := b.chore.next(b.now())
		if len(over) > 0 {
			b.expire(over)
			continue
		}
		timer := time.NewTimer(max(0, min(wait, directoriesAt-b.now())))
		select {
		case <-timer.C:
		case <-b.chore.wake:
		case <-b.life.Done():
		}
		timer.Stop()
		if b.now() >= directoriesAt {
			directoriesAt = b.now() + sweepInterval
			b.sweepDirectories(b.life)
		}
	}
}

// expire deletes keys whose time is over, unless they were put again.
func (b *Broker) expire(over map[string]dueKey) {
	var keys []string
	var txns []broker.Txn
	for key, due := range over {
		keys = append(keys, key)
		txns = append(txns, broker.Txn{If: []broker.Cond{broker.Modified(key, due.revision)}, Then: []broker.Op{broker.Delete(key)}})
	}
	for i, r := range b.Commit(b.life, txns...) {
		retry := time.Duration(0)
		if r.Err != nil {
			retry = b.now() - over[keys[i]].at + dueRetry
		}
		b.chore.settle(keys[i], over[keys[i]], retry)
	}
}

// sweepDirectories deletes the directories that are still empty. What fails is found
// again by a listing.
func (b *Broker) sweepDirectories(ctx context.Context) {
	l, err := b.linked(ctx)
	if err != nil {
		return
	}
	var empty []walked
	var w walk
	_ = w.readAll(ctx, l, b.chore.takeEmpty(), wire.GetData, func(path string, r wire.Result, _ int64) error {
		z, err := toZnode(r)
		if err == nil && z.isEmptyDirectory() && len(path) > len(b.layout.chroot) {
			empty = append(empty, walked{path: path, znode: z})
		}
		return nil
	})
	epochs := map[string]int32{}
	if b.readDirectories(ctx, l, empty, epochs) == nil {
		empty = slices.DeleteFunc(empty, func(n walked) bool { return !n.isEmptyDirectory() }) // by now
		_ = b.removeDirectories(ctx, l, empty, epochs)
	}
}

// readDirectories reads again those of some znodes that are directories where a key can
// be, each at the same moment as the epoch of the key, whose version it adds to epochs: a
// directory that is gone, and the key that is put in its place, have the same version.
func (b *Broker) readDirectories(ctx context.Context, l *link, nodes []walked, epochs map[string]int32) error {
	var indexes []int
	var paths []string
	for i, n := range nodes {
		_, _, isKey := decode(n.data)
		if epoch, ok := b.layout.epochOf(n.path); ok && !isKey {
			indexes, paths = append(indexes, i), append(paths, epoch)
		}
	}
	for from := 0; from < len(indexes); {
		some := indexes[from:min(from+readsMax/2, len(indexes))]
		var reads []wire.Read
		for i, index := range some {
			reads = append(reads, wire.GetData(nodes[index].path), wire.GetData(paths[from+i]))
		}
		answer := l.do(ctx, wire.MultiRead(reads))[0]
		if answer.Err != nil {
			return answer.Err
		}
		var missing []string
		for i, index := range some {
			z, err := toZnode(answer.Reply.Results[2*i])
			epoch, errEpoch := toZnode(answer.Reply.Results[2*i+1])
			if err := errors.Join(err, errEpoch); err != nil {
				return err
			}
			if !epoch.there {
				missing = append(missing, paths[from+i])
				continue
			}
			if _, known := epochs[paths[from+i]]; !known { // the older one proves more
				epochs[paths[from+i]] = epoch.stat.Version
			}
			if z.there { // otherwise to delete it fails
				nodes[index].znode = z
			}
		}
		if len(missing) == 0 {
			from += len(some)
		} else if err := b.makeEpochs(ctx, l, missing); err != nil {
			return err
		}
	}
	return nil
}

// removeDirectories deletes directories that had no children when they were read. One
// that has got some stays, and so does a key that has come in its place.
func (b *Broker) removeDirectories(ctx context.Context, l *link, empty []walked, epochs map[string]int32) error {
	for group := range slices.Chunk(empty, readsMax) {
		var requests []wire.Request
		for _, n := range group {
			slot, err := b.takeSlot(ctx, l)
			if err != nil {
				return err
			}
			r := record{id: rand.Uint64(), changes: []change{{kind: changeQuiet, events: 1, path: n.path[len(b.layout.chroot):]}}}
			ops := []wire.Op{wire.SetData(slot, r.encode(), wire.AnyVersion)}
			if epoch, ok := b.layout.epochOf(n.path); ok {
				ops = append(ops, wire.Check(epoch, epochs[epoch]))
			}
			requests = append(requests, wire.Multi(append(ops, wire.Delete(n.path, n.stat.Version))))
		}
		for i, a := range l.do(ctx, requests...) {
			if a.Err != nil {
				return a.Err
			}
			if _, code := a.Reply.Failed(); code == wire.CodeOK {
				b.chore.emptied(parent(group[i].path))
			}
		}
		b.dirs.forget()
	}
	return nil
}

// isEmptyDirectory tells whether a znode is of no use.
func (z znode) isEmptyDirectory() bool {
	_, _, isKey := decode(z.data)
	return z.there && !isKey && z.stat.NumChildren == 0 && z.stat.EphemeralOwner == 0
}
