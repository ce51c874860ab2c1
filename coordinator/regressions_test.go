package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/windlass-go/windlass/broker"
)

func (w *world) requeue(id string, created broker.Revision) {
	w.t.Helper()
	v, err := json.Marshal(Requeue{Created: created, Spec: []byte(`{"type":"t"}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put("/c/tasks/"+id+"/requeue", string(v))
}

func TestRegression_ALostClaimIsFencedThoughTheTaskIsToRunAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", `{"type":"t"}`)
		n1, _, s1 := w.node("n1", "")
		n2, _, _ := w.node("n2", "")
		g := claimOne(n1, Wanted{ID: "a"})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		w.requeue("a", g.Created)
		if err := w.b.Revoke(context.Background(), s1); err != nil {
			t.Fatal(err)
		}
		if r := claimOne(n2, Wanted{ID: "a"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		e := g.Ending(Done)
		e.State = []byte(`{"state":"completed"}`)
		for range 5 {
			if r := n1.End(context.Background(), []Ending{e})[0]; !errors.Is(r.Err, ErrFenced) {
				t.Errorf("%+v, want ErrFenced", r)
			}
		}
	})
}

func TestRegression_ASupersededCommandIsToldThoughTheTaskIsToRunAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", `{"type":"t"}`)
		n1, _, _ := w.node("n1", "")
		g := claimOne(n1, Wanted{ID: "a"})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		first := w.put("/c/taskcmd/a", `{"message":"kill"}`)
		w.requeue("a", g.Created)
		e := g.Ending(Done)
		e.State, e.Command = []byte(`{"state":"killed"}`), first
		e.Command = first + 1000 // whatever the key is called, it is another one
		for range 5 {
			if r := n1.End(context.Background(), []Ending{e})[0]; !errors.Is(r.Err, ErrSuperseded) {
				t.Errorf("%+v, want ErrSuperseded", r)
			}
		}
	})
}
