package election

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// LineChange is an election whose line has changed, or in which nobody stands any more.
type LineChange struct {
	Election ElectionInfo
	// Gone tells that nobody stands in it; only its name is set then.
	Gone bool
	// Revision is that of the store at which the watch knew of it.
	Revision int64
}

// Watch yields the elections in which anyone stands, by name, and then every change
// of a line, until ctx ends or the caller stops. An error is yielded and followed by
// another attempt, unless it is a ConfigError.
func Watch(ctx context.Context, b broker.Broker, namespace string) iter.Seq2[LineChange, error] {
	return func(yield func(LineChange, error) bool) {
		space, err := keys.New(namespace)
		if err != nil {
			yield(LineChange{}, &ConfigError{"namespace", err})
			return
		}
		w := watcher{broker: b, space: space, yield: yield, lines: map[string]map[string]broker.KV{}}
		var wait backoff
		for ctx.Err() == nil && !w.enough {
			err := w.follow(ctx, &wait)
			if ctx.Err() != nil || w.enough {
				return
			}
			if !yield(LineChange{}, err) || !wait.pause(ctx, session.Derive(TTLDefault)) {
				return
			}
		}
	}
}

// watcher is one iteration of Watch.
type watcher struct {
	broker broker.Broker
	space  keys.Space
	yield  func(LineChange, error) bool
	// lines are the entries of each election, by key.
	lines  map[string]map[string]broker.KV
	enough bool
}

// follow lists and watches until either fails or the caller has enough.
func (w *watcher) follow(ctx context.Context, wait *backoff) error {
	all, rev, err := broker.Collect(ctx, w.broker, w.space.Elections())
	if err != nil {
		return err
	}
	wait.reset()
	before := w.lines
	w.lines = map[string]map[string]broker.KV{}
	for _, kv := range all {
		w.put(kv)
	}
	var changed []string
	for name := range before {
		if !maps.EqualFunc(before[name], w.lines[name], same) {
			changed = append(changed, name)
		}
	}
	for name := range w.lines {
		if before[name] == nil {
			changed = append(changed, name)
		}
	}
	if !w.tell(changed, rev) {
		return nil
	}
	for batch, err := range w.broker.Watch(ctx, w.space.Elections(), rev+1) {
		if err != nil {
			return err
		}
		changed = changed[:0]
		for _, event := range batch.Events {
			name := w.space.Parse(event.KV.Key).Name
			if event.Deleted {
				delete(w.lines[name], event.KV.Key)
			} else {
				w.put(event.KV)
			}
			changed = append(changed, name)
		}
		if !w.tell(changed, batch.Revision) {
			return nil
		}
	}
	return ctx.Err()
}

// same tells whether an entry is as it was.
func same(a, b broker.KV) bool { return a.Created == b.Created && a.Modified == b.Modified }

func (w *watcher) put(kv broker.KV) {
	p := w.space.Parse(kv.Key)
	if p.Kind != keys.Candidate {
		return
	}
	if w.lines[p.Name] == nil {
		w.lines[p.Name] = map[string]broker.KV{}
	}
	w.lines[p.Name][kv.Key] = kv
}

// tell yields the elections that have changed, and tells whether to go on.
func (w *watcher) tell(changed []string, at broker.Revision) bool {
	slices.Sort(changed)
	for _, name := range slices.Compact(changed) {
		if name == "" {
			continue // a key that is not ours
		}
		line := w.lines[name]
		change := LineChange{Election: ElectionInfo{Name: name}, Gone: len(line) == 0, Revision: int64(at)}
		for _, kv := range slices.SortedFunc(maps.Values(line), byOrder) {
			change.Election.Candidates = append(change.Election.Candidates, candidateInfo(w.space, kv))
		}
		if len(line) == 0 {
			delete(w.lines, name)
		}
		if w.enough = !w.yield(change, nil); w.enough {
			return false
		}
	}
	return true
}
