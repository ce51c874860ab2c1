package waiting_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/waiting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Random tasks come, are claimed, fail and go, and what they need changes, one at a time and
// many. Another looks at all of them each time.
func TestIndex_M22_FindsWhatAnotherFindsWhoLooksAtAll(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		space, err := keys.New("test")
		if err != nil {
			t.Fatal(err)
		}
		tasks := mirror.NewTasks(space, mirror.Keep{})
		index := waiting.NewIndex(tasks)
		ids := []string{"a", "b", "j_t", "j_t|k_t", "j_t|l_t", "j_t|l_t|m_t", "n_t", "n_t|o_t"}
		blockers, before := map[string][]string{}, map[string]kind.Waiting{}
		for step := range 300 {
			at := broker.Revision(step + 1)
			var events []broker.Event
			for range 1 + random.IntN(3) {
				id := ids[random.IntN(len(ids))]
				key := []string{space.Task(id), space.Failed(id), space.Owner(id)}[random.IntN(3)]
				events = append(events, broker.Event{KV: broker.KV{Key: key, Created: at, Modified: at}, Deleted: random.IntN(2) == 0})
			}
			changed := tasks.Apply(broker.Batch{Events: events, Revision: at})
			for range random.IntN(2) {
				id := fmt.Sprint("w", random.IntN(4))
				needs := slices.Clone([]string{"a", "b", "j_t|k_t", "j_t|*", "j_t|l_t|*", "n_t|*", "n_t"}[:random.IntN(8)])
				random.Shuffle(len(needs), func(i, j int) { needs[i], needs[j] = needs[j], needs[i] })
				blockers[id] = depend.Blockers(id, needs)
				index.Put(id, blockers[id])
				before[id] = kind.Waits(blockers[id], tasks, 99)
			}
			turned, moved := index.LookAgain(changed)
			for id, needs := range blockers {
				now := kind.Waits(needs, tasks, 99)
				flipped, same := (now.Count > 0) != (before[id].Count > 0), reflect.DeepEqual(now, before[id])
				if slices.Contains(turned, id) != flipped || !same && !flipped && !slices.Contains(moved, id) {
					t.Fatalf("seed %d, step %d: %s was %+v and is %+v; turned %q, moved %q", seed, step, id, before[id], now, turned, moved)
				}
				if before[id] = now; slices.Contains(moved, id) && now.Count == 0 {
					t.Fatalf("seed %d, step %d: %s waits for nothing, and moved", seed, step, id)
				}
			}
		}
	}
}

func TestIndex_M22_SaysNothingOfWhatChangesWithoutMeaningForWhoWaits(t *testing.T) {
	space, err := keys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	tasks := mirror.NewTasks(space, mirror.Keep{})
	index := waiting.NewIndex(tasks)
	look := func(key string, at broker.Revision, deleted bool) (turned, moved []string) {
		return index.LookAgain(tasks.Apply(broker.Batch{Revision: at, Events: []broker.Event{{KV: broker.KV{Key: key, Created: at, Modified: at}, Deleted: deleted}}}))
	}
	look(space.Task("need"), 1, false)
	index.Put("waits", []string{"need"})
	look(space.Owner("need"), 2, false) // the first look at it
	for i, key := range []string{space.Owner("need"), space.Task("need"), space.Props("need"), space.Task("other")} {
		if turned, moved := look(key, broker.Revision(3+i), false); len(turned)+len(moved) > 0 {
			t.Errorf("%s: turned %q, moved %q", key, turned, moved)
		}
	}
	if turned, moved := look(space.Failed("need"), 9, false); len(turned)+len(moved) > 0 {
		t.Errorf("it runs again: turned %q, moved %q", turned, moved)
	}
	if turned, moved := look(space.Task("need"), 10, true); len(turned) > 0 || len(moved) != 1 {
		t.Errorf("it failed: turned %q, moved %q", turned, moved)
	}
	if turned, moved := look(space.Failed("need"), 11, true); len(turned) != 1 || len(moved) > 0 {
		t.Errorf("it is forgotten: turned %q, moved %q", turned, moved)
	}
}
