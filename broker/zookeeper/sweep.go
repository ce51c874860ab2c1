package zookeeper

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

const (
	// sweepInterval is how often a broker looks for empty directories where it saw
	// something deleted. ZooKeeper's containers would go by themselves, but nobody
	// could tell whether one that went was a key.
	sweepInterval = 30 * time.Second
	// emptiedMax bounds what is remembered. What is forgotten is found by the next
	// listing.
	emptiedMax = 10_000
)

// emptied are directories that lost a child. Every broker deletes those that it sees,
// when nobody waits for it, and the first one wins.
type emptied struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (e *emptied) add(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.paths) >= emptiedMax {
		return
	}
	if e.paths == nil {
		e.paths = map[string]bool{}
	}
	e.paths[path] = true
}

func (e *emptied) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.Collect(maps.Keys(e.paths))
	clear(e.paths)
	return all
}

// sweep looks for empty directories until the broker is closed.
func (b *Broker) sweep() {
	for wait := rand.N(sweepInterval); pause.For(b.life, wait); wait = sweepInterval { // not all brokers at once
		b.sweepDirectories(b.life)
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
	_ = w.readAll(ctx, l, b.emptied.take(), wire.GetData, func(path string, r wire.Result, _ int64) error {
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
			r := record{changes: []change{{kind: changeQuiet, events: 1, path: n.path[len(b.layout.chroot):]}}}
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
				b.emptied.add(parent(group[i].path))
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
