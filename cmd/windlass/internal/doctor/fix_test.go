package doctor_test

import (
	"strings"
	"testing"

	"github.com/windlass-go/windlass/broker"
)

// fix runs Fix, and returns what was done and what was not, a line each.
func (w *world) fix() (done, left []string) {
	w.Helper()
	fixed, err := w.doctor.Fix(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range fixed {
		if f.Done {
			done = append(done, f.What)
		} else {
			left = append(left, f.What+": "+f.Why)
		}
	}
	return done, left
}

func TestFix_RepairsOnlyWhatNeedsNoDecision(t *testing.T) {
	inWorlds(t, func(w *world) {
		n := w.healthy()
		w.task("held") // by nobody's session
		w.claim("held", "gone", 0)
		w.task("done")
		w.put(w.space.Props("done"), "{}")
		w.put("/w/tasks/done/unknown", "unknown")
		w.put(w.space.TaskCommand("done"), "kill")
		w.task("donetoo")
		w.put(w.space.Claim("record"), "{}")
		// What has ended and is held without a session takes two rounds.
		w.task("both")
		w.put(w.space.State("both"), `{"state":"failed"}`)
		w.claim("both", "n", 0)
		// These need a decision, or are not ours.
		w.put(w.space.Task("corrupt"), "{")
		w.put(w.space.State("corrupt"), `{"state":"killed"}`)
		w.put(w.space.Props("corruptprops"), "{")
		w.put(w.space.State("corruptprops"), `{"state":"killed"}`)
		w.put(w.space.Owner("corruptowner"), "{}")
		w.put(w.space.Claim("corruptclaim"), "{")
		w.task("working")
		w.put(w.space.State("working"), `{"state":"completed"}`)
		w.claim("working", "n", n)

		done, left := w.fix()
		if len(done) != 7 || len(left) > 0 {
			w.Errorf("done\n%s\nleft\n%s", strings.Join(done, "\n"), strings.Join(left, "\n"))
		}
		s := w.space
		for key, want := range map[string]bool{
			s.Owner("held"): false, s.Claim("held"): false, s.Task("held"): true,
			s.Task("done"): false, s.Props("done"): false, s.TaskCommand("done"): false, s.State("done"): true, "/w/tasks/done/unknown": true,
			s.Task("donetoo"): true, s.Claim("record"): false,
			s.Owner("both"): false, s.Task("both"): false, s.State("both"): true, s.Claim("both"): false,
			s.Task("corrupt"): true, s.Props("corruptprops"): true, s.Owner("corruptowner"): true, s.Claim("corruptclaim"): true,
			s.Task("working"): true, s.Owner("working"): true, s.Task("runs"): true, s.Owner("runs"): true, s.State("deleted"): true,
			"/w/elections/e": true, "/w/tasks/_metafora": true,
		} {
			if w.has(key) != want {
				w.Errorf("%s: there %v, want %v", key, !want, want)
			}
		}
		if done, left := w.fix(); len(done)+len(left) > 0 {
			w.Errorf("and again: %q, %q", done, left)
		}
	})
}

func TestFix_LeavesConcurrentChangesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		defect func(w *world)
		// change happens between the look and the repair.
		change func(w *world, n broker.SessionID)
		stays  func(w *world) string
	}{
		"an owner that was replaced": {
			func(w *world) { w.task("x"); w.claim("x", "gone", 0) },
			func(w *world, n broker.SessionID) {
				w.commit(broker.Delete(w.space.Owner("x")), broker.Delete(w.space.Claim("x")))
				w.claim("x", "n", n)
			},
			func(w *world) string { return w.space.Owner("x") },
		},
		"an owner that was written anew": {
			func(w *world) { w.task("x"); w.claim("x", "gone", 0) },
			func(w *world, _ broker.SessionID) { w.put(w.space.Owner("x"), `{"node":"n"}`) },
			func(w *world) string { return w.space.Owner("x") },
		},
		"an ended task that was submitted afresh": {
			func(w *world) { w.task("done") },
			func(w *world, _ broker.SessionID) { w.commit(broker.Delete(w.space.State("done"))); w.task("done") },
			func(w *world) string { return w.space.Task("done") },
		},
		"an ended task that was claimed": {
			func(w *world) { w.task("done") },
			func(w *world, n broker.SessionID) { w.claim("done", "n", n) },
			func(w *world) string { return w.space.Task("done") },
		},
		"an ended task whose state was changed": {
			func(w *world) { w.task("done") },
			func(w *world, _ broker.SessionID) { w.put(w.space.State("done"), `{"state":"runnable"}`) },
			func(w *world) string { return w.space.Task("done") },
		},
		"a record whose task was claimed": {
			func(w *world) { w.task("x"); w.put(w.space.Claim("x"), "{}") },
			func(w *world, n broker.SessionID) { w.putOn(n, w.space.Owner("x"), `{"node":"n"}`) },
			func(w *world) string { return w.space.Claim("x") },
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inWorlds(t, func(w *world) {
				n := w.healthy()
				c.defect(w)
				b := &meddling{Broker: w.connect()}
				b.before = func() { b.before = nil; c.change(w, n) }
				w.doctor.Broker = b
				done, left := w.fix()
				if len(done) > 0 || len(left) == 0 || !strings.Contains(left[0], "changed meanwhile") {
					w.Errorf("done %q, left %q", done, left)
				}
				if key := c.stays(w); !w.has(key) {
					w.Errorf("%s is gone", key)
				}
			})
		})
	}
}
