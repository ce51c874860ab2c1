package deaths

import (
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// keeperOf returns the keeper of node a, which registered at revision 20, and what it has put by the keys that were written.
// The store has the nodes a and b and some deaths, and node a has slept over one task.
func keeperOf(t *testing.T, other broker.Revision, deaths ...Death) (k *Keeper, put map[string][]broker.Op) {
	t.Helper()
	space, err := keys.New("/d")
	if err != nil {
		t.Fatal(err)
	}
	kvs := []broker.KV{
		{Key: space.NodeInfo("a"), Value: []byte("{}"), Created: 20, Modified: 20, Session: 1},
		{Key: space.NodeInfo("b"), Value: []byte("{}"), Created: other, Modified: other, Session: 2},
	}
	for _, d := range deaths {
		kvs = append(kvs, broker.KV{Key: space.NodeDeath(d.Node, d.Incarnation), Value: d.Encode(), Created: 10, Modified: 10})
	}
	nodes, tasks := mirror.NewNodes(space), mirror.NewTasks(space, mirror.Keep{})
	nodes.Reset(&mirror.Snapshot{KVs: kvs, Revision: 30})
	tasks.Reset(&mirror.Snapshot{KVs: []broker.KV{{Key: space.Task("t"), Value: []byte("{}"), Created: 1, Modified: 1}}, Revision: 30})
	put = map[string][]broker.Op{}
	k = NewKeeper(Node{
		Name: "a", Space: space, TTL: 10 * time.Second, Nodes: nodes, Tasks: tasks,
		Since: func() broker.Revision { return 20 }, Working: func() bool { return true },
		Survived: func(incarnation string) bool { return incarnation == "mine" },
		Limit:    func(*mirror.Task) int { return CountDefault },
		Held: func(task string) (Held, bool) {
			return Held{Token: 9, Created: 1, AsleepFrom: 3}, task == "slept"
		},
		Put: func(_ string, txn broker.Txn, _ time.Time) {
			for _, op := range txn.Then {
				put[space.Parse(op.Key).Name] = append(put[space.Parse(op.Key).Name], op)
			}
		},
	})
	return k, put
}

func TestKeeper_O02_AnswersTheDeathsOfItsNode(t *testing.T) {
	now := time.Now()
	lost := []Lost{{Task: "slept", Token: 5}, {Task: "t", Token: 4}}
	k, put := keeperOf(t, 25,
		Death{Node: "a", Incarnation: "mine", At: now}, Death{Node: "a", Incarnation: "before", At: now},
		Death{Node: "b", Incarnation: "other", At: now, Claims: 2, Lost: slices.Clone(lost)})
	if news := k.Read(now); len(news.Died) != 0 {
		t.Errorf("deaths that were there before this node are told as new: %v", news.Died)
	}
	stored := map[string]Death{}
	for node, ops := range put {
		for _, op := range ops {
			incarnation := op.Key[len(op.Key)-5:]
			if d, ok := Parse(node, incarnation, broker.KV{Value: op.Value}); ok {
				stored[incarnation] = d
			} else {
				stored[incarnation] = Death{Process: "deleted"}
			}
		}
	}
	if got := stored["/mine"]; got.Process != "deleted" {
		t.Errorf("the death that this process has survived: %+v, want it deleted", got)
	}
	if got := stored["efore"]; !got.Restarted {
		t.Errorf("the death of the process before: %+v, want it confirmed", got)
	}
	if got := stored["other"]; got.Claims != 1 || !slices.Equal(got.Lost, lost[1:]) {
		t.Errorf("the death of another node: %+v, want it without the task that slept", got)
	}
	clear(put)
	if k.Read(now); len(put) != 0 {
		t.Errorf("records that have not changed are answered again: %v", put)
	}
}

func TestKeeper_TheOldestNodeForgets(t *testing.T) {
	old := Death{Node: "b", Incarnation: "old", At: time.Now().Add(-2 * Window)}
	for _, c := range []struct {
		other broker.Revision
		want  int
	}{{25, 1}, {15, 0}} {
		k, put := keeperOf(t, c.other, old)
		k.Read(time.Now())
		at := k.ForgetAt()
		if at.IsZero() || k.Forget(at.Add(-1)) {
			t.Fatalf("what is outdated is to be forgotten at %v, or is before that", at)
		}
		if k.Forget(at); len(put["b"]) != c.want {
			t.Errorf("node a came at 20 and b at %d: %d records deleted, want %d", c.other, len(put["b"]), c.want)
		}
	}
}
