package zookeeper

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// pathSet remembers paths, at most pathsMax.
type pathSet struct {
	mu    sync.Mutex
	paths map[string]bool
}

// pathsMax limits a pathSet. When it is full, it forgets everything.
const pathsMax = 100_000

func (s *pathSet) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[path]
}

func (s *pathSet) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paths == nil || len(s.paths) >= pathsMax {
		s.paths = map[string]bool{}
	}
	s.paths[path] = true
}

// clear forgets all paths and returns them.
func (s *pathSet) clear() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.paths
	s.paths = nil
	return all
}

// makeParents creates the missing directories above paths. They are not part of a
// transaction: an empty one does no harm and is swept later. It returns the paths that
// cannot have parents, because a key of a session is in the way.
func (b *Broker) makeParents(ctx context.Context, l *link, paths []string) (blocked map[string]bool, err error) {
	for {
		var unknown []string
		asked := map[string]bool{}
		for _, path := range paths {
			if b.dirs.has(parent(path)) {
				continue
			}
			for _, above := range b.layout.ancestors(path) {
				if !asked[above] && !b.dirs.has(above) {
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
		for some := range slices.Chunk(missing, makeDirectoriesMax) {
			if err := b.makeDirectories(ctx, l, some); err != nil {
				return nil, err
			}
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

// lookForDirectories returns the paths that are missing, and those that are keys of
// sessions.
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
			b.dirs.add(path)
		}
		return nil
	})
	return missing, leaves, err
}

// makeDirectoriesMax limits the directories created by one request.
const makeDirectoriesMax = 200

// makeDirectories creates directories, given with parents first. It may not create them,
// also without an error, because others change the same paths; the caller looks again.
func (b *Broker) makeDirectories(ctx context.Context, l *link, paths []string) error {
	first, err := b.writeQuiet(ctx, l, paths...)
	if err != nil {
		return err
	}
	epochs := map[string]bool{}
	var creates []wire.Op
	for _, path := range paths {
		for _, epoch := range b.layout.directoryEpochs(path) {
			epochs[epoch] = true
		}
		creates = append(creates, wire.Create(path, directory, wire.Persistent, b.acls))
	}
	ops := []wire.Op{first}
	for epoch := range epochs {
		ops = append(ops, wire.SetData(epoch, nil, wire.AnyVersion))
	}
	for {
		reply := l.do(ctx, wire.Multi(append(ops, creates...)))[0]
		if reply.Err != nil {
			return reply.Err
		}
		i, code := reply.Reply.Failed()
		switch {
		case code == wire.CodeOK || code == wire.CodeNodeExists || code == wire.CodeNoChildren:
			return nil
		case code != wire.CodeNoNode:
			return code
		case i >= len(ops): // a parent is gone
			b.dirs.clear()
			return nil
		case i == 0:
			b.slots.forget()
			return nil
		}
		if err := b.makeEpochs(ctx, l, slices.Collect(maps.Keys(epochs))); err != nil {
			return err
		}
	}
}

// makeEpochs creates epochs, if they are missing.
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
