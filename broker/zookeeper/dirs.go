package zookeeper

import (
	"context"
	"sync"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// directories remembers which directories are there. It may be wrong: then a
// transaction fails for want of a parent, and it is told to forget.
type directories struct {
	mu    sync.Mutex
	known map[string]bool
}

// directoriesMax bounds what is remembered.
const directoriesMax = 100_000

func (d *directories) isKnown(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[path]
}

func (d *directories) remember(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= directoriesMax {
		d.known = map[string]bool{}
	}
	d.known[path] = true
}

func (d *directories) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = nil
}

// makeParents creates the directories above paths that are missing. They are no part
// of a transaction: an empty one harms nobody, and is swept away. It returns those
// paths that cannot have parents, because a key of a session is in the way.
func (b *Broker) makeParents(ctx context.Context, l *link, paths []string) (blocked map[string]bool, err error) {
	for {
		var unknown []string
		asked := map[string]bool{}
		for _, path := range paths {
			if b.dirs.isKnown(parent(path)) {
				continue
			}
			for _, above := range b.layout.ancestors(path) {
				if !asked[above] && !b.dirs.isKnown(above) {
					asked[above] = true
					unknown = append(unknown, above)
				}
			}
		}
		if len(unknown) == 0 {
			return nil, nil
		}
		missing, leaves, err := b.lookForDirectories(ctx, l, unknown)
		if err != nil {
			return nil, err
		}
		if len(leaves) > 0 {
			return b.below(paths, leaves), nil
		}
		if err := b.makeDirectories(ctx, l, missing); err != nil {
			return nil, err
		}
	}
}

// below returns the paths that are below one of the leaves.
func (b *Broker) below(paths []string, leaves map[string]bool) map[string]bool {
	blocked := map[string]bool{}
	for _, path := range paths {
		for _, above := range b.layout.ancestors(path) {
			if leaves[above] {
				blocked[path] = true
			}
		}
	}
	return blocked
}

// lookForDirectories tells which paths are missing, and which are leaves of sessions.
func (b *Broker) lookForDirectories(ctx context.Context, l *link, paths []string) (missing []string, leaves map[string]bool, err error) {
	leaves = map[string]bool{}
	var w walk
	err = w.readAll(ctx, l, paths, wire.GetData, func(path string, r wire.Result, _ int64) error {
		z, err := toZnode(r)
		switch {
		case err != nil:
			return err
		case !z.there:
			missing = append(missing, path)
		case z.stat.EphemeralOwner != 0:
			leaves[path] = true
		default:
			b.dirs.remember(path)
		}
		return nil
	})
	return missing, leaves, err
}

// makeDirectoriesMax bounds the directories created by one request.
const makeDirectoriesMax = 200

// makeDirectories creates directories, parents first. Whoever else does it at the same
// time wins; the caller looks again.
func (b *Broker) makeDirectories(ctx context.Context, l *link, paths []string) error {
	for len(paths) > 0 {
		n := min(len(paths), makeDirectoriesMax)
		if err := b.makeSome(ctx, l, paths[:n]); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

func (b *Broker) makeSome(ctx context.Context, l *link, paths []string) error {
	slot, err := b.takeSlot(ctx, l)
	if err != nil {
		return err
	}
	var r record
	epochs := map[string]bool{}
	var creates []wire.Op
	for _, path := range paths {
		r.changes = append(r.changes, change{kind: changeQuiet, events: 1, path: path[len(b.layout.chroot):]})
		for _, epoch := range b.layout.directoryEpochs(path) {
			epochs[epoch] = true
		}
		creates = append(creates, wire.Create(path, directory, wire.Persistent, b.acls))
	}
	ops := []wire.Op{wire.SetData(slot, r.encode(), wire.AnyVersion)}
	var missing []string
	for epoch := range epochs {
		ops = append(ops, wire.SetData(epoch, nil, wire.AnyVersion))
		missing = append(missing, epoch)
	}
	for {
		reply := l.do(ctx, wire.Multi(append(ops, creates...)))[0]
		if reply.Err != nil {
			return reply.Err
		}
		i, code := reply.Reply.Failed()
		switch {
		case code == wire.CodeOK || code == wire.CodeNodeExists || code == wire.CodeNoChildren:
			return nil // the caller looks again
		case code != wire.CodeNoNode:
			return code
		case i >= len(ops): // a parent is gone
			b.dirs.forget()
			return nil
		case i == 0:
			b.slots.forget()
			return nil
		}
		if err := b.makeEpochs(ctx, l, missing); err != nil {
			return err
		}
	}
}

// makeEpochs creates epochs that have never been counted up.
func (b *Broker) makeEpochs(ctx context.Context, l *link, paths []string) error {
	requests := make([]wire.Request, len(paths))
	for i, path := range paths {
		requests[i] = wire.Single(wire.Create(path, nil, wire.Persistent, b.acls))
	}
	for _, a := range l.do(ctx, requests...) {
		if err := ignore(a.Err, wire.CodeNodeExists); err != nil {
			return err
		}
	}
	return nil
}
