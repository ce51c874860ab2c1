package zookeeper

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

// sweepInterval is how often a broker looks for empty directories where it saw a deletion.
// ZooKeeper's containers would be deleted automatically, but then watchers could not know
// whether one was a key.
const sweepInterval = 30 * time.Second

// sweep looks for empty directories until the broker is closed.
func (b *Broker) sweep() {
	for wait := rand.N(sweepInterval); pause.For(b.life, wait); wait = sweepInterval { // not all brokers at once
		b.sweepDirectories(b.life)
	}
}

// sweepDirectories deletes the directories that are still empty. It ignores failures: the
// next listing finds what is left.
func (b *Broker) sweepDirectories(ctx context.Context) {
	l, err := b.linked(ctx)
	if err != nil {
		return
	}
	var empty []walked
	var w walk
	paths := slices.Collect(maps.Keys(b.emptied.clear()))
	_ = w.readAll(ctx, l, paths, wire.GetData, func(path string, r wire.Result, _ int64) error {
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

// readDirectories reads those of the znodes again that are directories where a key can be,
// each at one revision with the epoch of the key, whose version it adds to epochs. Without
// the epoch a key that was put in place of the directory could have the same version.
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
			if _, known := epochs[paths[from+i]]; !known { // an older version covers more time
				epochs[paths[from+i]] = epoch.stat.Version
			}
			if z.there { // otherwise deleting it fails
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

// removeDirectories deletes directories that had no children when they were read. One that
// has children by now stays, and so does a key that was put in its place.
func (b *Broker) removeDirectories(ctx context.Context, l *link, empty []walked, epochs map[string]int32) error {
	for group := range slices.Chunk(empty, readsMax) {
		var requests []wire.Request
		for _, n := range group {
			first, err := b.writeQuiet(ctx, l, n.path)
			if err != nil {
				return err
			}
			ops := []wire.Op{first}
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
		b.dirs.clear()
	}
	return nil
}

// isEmptyDirectory reports whether a znode is an unused directory.
func (z znode) isEmptyDirectory() bool {
	_, _, isKey := decode(z.data)
	return z.there && !isKey && z.stat.NumChildren == 0 && z.stat.EphemeralOwner == 0
}
