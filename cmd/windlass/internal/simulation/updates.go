package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/windlass-go/windlass"
)

// updates has the properties that tasks run with. Those that stay are changed while they
// run, and some of their handlers listen to that.
type updates struct {
	random  *rand.Rand
	changes int
	mu      sync.Mutex
	// with has what the newest run of each task has, by the task.
	with map[string]runsWith
}

type runsWith struct {
	token int64
	props string
}

// runs records the properties that a run has from now on.
func (u *updates) runs(claim *windlass.Claim, props json.RawMessage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.with[claim.ID()].token <= claim.Token() {
		u.with[claim.ID()] = runsWith{claim.Token(), string(props)}
	}
}

// updateTask sometimes changes the properties of a task that runs until it is stopped, or
// more.
func (w *world) updateTask() {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(w.expected)), func(id string) bool { return !behaviourOf(id).stays() })
	if w.updates.random.IntN(20) > 0 || len(ids) == 0 {
		return
	}
	id := ids[w.updates.random.IntN(len(ids))]
	w.updates.changes++
	number := w.updates.changes
	var effect windlass.Effect
	err := w.attempt(func(ctx context.Context) (err error) {
		effect, err = w.client.Update(ctx, id, func(s *windlass.Submission) error {
			s.Props = json.RawMessage(fmt.Sprintf(`{"change":%d}`, number))
			if number%4 == 0 {
				s.Spec.Priority = number % 3
			}
			return nil
		})
		return err
	})
	if err == nil {
		w.count("task " + string(effect))
	}
}

// outdated reports a task that runs with other properties than it has (O05).
func (w *world) outdated() string {
	tasks, err := w.client.Tasks(w.t.Context(), windlass.Filter{Statuses: []windlass.Status{windlass.StatusRunning}})
	if err != nil {
		return err.Error()
	}
	for _, task := range tasks {
		if !behaviourOf(task.ID).stays() {
			continue
		}
		detail, err := w.client.Task(w.t.Context(), task.ID)
		if err != nil {
			return err.Error()
		}
		w.updates.mu.Lock()
		with := w.updates.with[task.ID]
		w.updates.mu.Unlock()
		if with.token == detail.Token && with.props != string(detail.Props) {
			return fmt.Sprintf("O05: %q runs with %s and has %s", task.ID, with.props, detail.Props)
		}
	}
	return ""
}
