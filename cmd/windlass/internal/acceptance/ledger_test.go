//go:build e2e && linux

package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ledger watches the keys of Windlass in the store, and records each claim and each final
// state by its revision. On etcd a watch that is resumed by revision misses nothing. On
// ZooKeeper the keys are listed after a gap: a claim that was granted and ended within the gap
// is not counted, but no final state is missed.
type ledger struct {
	t    *testing.T
	stop context.CancelFunc
	done sync.WaitGroup

	mu        sync.Mutex
	grants    int
	handOvers int               // grants of a task that had been granted before
	granted   map[string]int64  // revision of the last grant, by task that has not ended
	ended     map[string]ending // by task
	doubled   []string          // completions that came after another, or before another grant
	failed    []string          // states that nothing here should ever get into
}

// ending is a task's final state: when it was written, and by which claim.
type ending struct{ revision, token int64 }

// root begins the keys of the default namespace.
const root = "/windlass/"

// put is a key that was written.
type put struct {
	key               string
	value             []byte
	created, modified int64
}

// startLedger books what is written in a store from now on.
func startLedger(t *testing.T, store quorum) *ledger {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := newLedger(t)
	l.stop = cancel
	follow := store.follow(ctx, root)
	l.done.Go(func() {
		if err := follow(l.book); ctx.Err() == nil {
			t.Errorf("the ledger has a gap: %v", err)
		}
	})
	t.Cleanup(l.close)
	return l
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, granted: map[string]int64{}, ended: map[string]ending{}}
}

func (l *ledger) close() {
	l.stop()
	l.done.Wait()
}

func (l *ledger) book(puts []put) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range puts {
		if strings.Contains(p.key, "/"+standing) {
			continue // of these the test itself knows what is to become
		}
		parts := strings.Split(strings.TrimPrefix(p.key, root), "/")
		switch {
		case len(parts) == 3 && parts[0] == "tasks" && parts[2] == "owner" && p.created == p.modified:
			l.grant(parts[1], p.created)
		case len(parts) == 2 && parts[0] == "state":
			l.state(parts[1], p)
		}
	}
}

func (l *ledger) grant(task string, revision int64) {
	if l.granted[task] == revision {
		return // listed again
	}
	l.grants++
	if l.granted[task] > 0 {
		l.handOvers++
	}
	if at := l.ended[task].revision; at > 0 {
		l.doubled = append(l.doubled, fmt.Sprintf("task %s was completed at revision %d and granted again at %d", task, at, revision))
		return
	}
	l.granted[task] = revision
}

func (l *ledger) state(task string, p put) {
	if l.ended[task].revision == p.modified {
		return // listed again
	}
	var state struct {
		State string `json:"state"`
		Token int64  `json:"token"`
	}
	if err := json.Unmarshal(p.value, &state); err != nil || state.State != "completed" || isEndless(task) {
		l.failed = append(l.failed, fmt.Sprintf("task %s at revision %d: %s", task, p.modified, p.value))
	}
	// The key itself shows a second write, even within a gap.
	if l.ended[task].revision > 0 || p.created != p.modified {
		l.doubled = append(l.doubled, fmt.Sprintf("task %s was completed at revision %d and again at %d", task, p.created, p.modified))
	}
	l.ended[task] = ending{p.modified, state.Token}
	delete(l.granted, task)
}

// endedAt is a task's final state, zero while there is none.
func (l *ledger) endedAt(task string) ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[task]
}

// missing are the tasks of a list that have not ended.
func (l *ledger) missing(tasks []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return l.ended[task].revision > 0 })
}

// sums returns a copy of what was counted.
func (l *ledger) sums() (grants, handOvers int, doubled, failed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grants, l.handOvers, slices.Clone(l.doubled), slices.Clone(l.failed)
}
