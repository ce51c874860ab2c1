package integration_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// historyOf returns the history of a task as event@node. A star marks an interruption.
func (c *cluster) historyOf(id string) (string, statemachine.History) {
	c.t.Helper()
	h, err := inspect.New(c.client).History(c.t.Context(), id)
	if errors.Is(err, windlass.ErrNotFound) {
		return "", h
	}
	c.must(err)
	var parts []string
	for _, e := range h.Entries {
		mark := ""
		if e.Interruption {
			mark = "*"
		}
		parts = append(parts, string(e.Event)+"@"+e.Node+mark)
	}
	return strings.Join(parts, " "), h
}

func TestHistory_M55_TellsOfEveryClaimAndCountsInterruptions(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		tells := func(want string) func() bool {
			return func() bool { told, _ := c.historyOf("t"); return told == want }
		}
		finish := make(chan struct{})
		run := running(func(ctx context.Context, _ *windlass.Claim) error {
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		a := c.join("a", run)
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitUntil(time.Second, "the claim is in the history", tells("claimed@a"))
		c.join("b", run)
		c.must(a.Stop())
		c.WaitUntil(5*time.Second, "b has it", tells("claimed@a released@a* claimed@b"))
		// The claim is taken away by hand: nobody says how it ended.
		c.delete("/test/tasks/t/owner")
		c.WaitUntil(5*time.Second, "it was claimed anew", tells("claimed@a released@a* claimed@b lost@b* claimed@b"))
		close(finish)
		c.WaitUntil(5*time.Second, "it is done", tells("claimed@a released@a* claimed@b lost@b* claimed@b completed@b"))
		if _, h := c.historyOf("t"); h.Claims != 3 || h.Interruptions != 2 {
			t.Errorf("%d claims, %d interruptions", h.Claims, h.Interruptions)
		}
		if n, err := inspect.New(c.client).Interruptions(t.Context(), "t", "nobody"); err != nil || !maps.Equal(n, map[string]int{"t": 2}) {
			t.Errorf("interruptions: %v, %v", n, err)
		}
		if _, err := inspect.New(c.client).Interruptions(t.Context(), "a/b"); err == nil || !strings.Contains(err.Error(), "a/b") {
			t.Errorf("interruptions of an impossible ID: %v", err)
		}
		if d := c.task("t"); d.Status != windlass.StatusCompleted || len(d.Errors) > 0 {
			t.Errorf("%+v", d)
		}
	})
}

// That a task sleeps says nothing of why: it may be its own wish, or the pause after an error.
func TestHistory_M55_TellsTheErrorAfterWhichATaskSleeps(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		runs := 0
		c.join("a", running(func(context.Context, *windlass.Claim) error {
			switch runs++; runs {
			case 1:
				return errors.New("connection refused")
			case 2:
				return windlass.Message(statemachine.SleepUntil(time.Now().Add(time.Minute)))
			}
			return nil
		}))
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitFor(5*time.Minute, "t", windlass.StatusCompleted)
		c.WaitUntil(5*time.Second, "all is in the history", func() bool { told, _ := c.historyOf("t"); return strings.HasSuffix(told, "completed@a") })
		_, h := c.historyOf("t")
		var slept []string
		for _, e := range h.Entries {
			if e.Event == statemachine.Event(statemachine.Sleeping) {
				slept = append(slept, e.Detail)
			}
		}
		if len(slept) != 2 || !strings.HasSuffix(slept[0], ", after an error: connection refused") || strings.Contains(slept[1], "error") {
			t.Errorf("it slept %q", slept)
		}
	})
}

func TestHistory_M05_BadIDsAndUnknownTasksAreErrors(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var input *windlass.BadInputError
		if _, err := inspect.New(c.client).History(t.Context(), "a/b"); !errors.As(err, &input) {
			t.Errorf("%v", err)
		}
		if _, err := inspect.New(c.client).History(t.Context(), "a"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

func TestHistory_NamesWhoSubmittedChangedAndRestarted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		as := func(name string) context.Context { return windlass.WithCaller(t.Context(), name) }
		works := false
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			if !works {
				return windlass.Permanent(errors.New("no"))
			}
			return untilStopped(ctx, claim)
		}))
		c.must(c.client.Submit(as("ann"), windlass.Submission{ID: "t", Spec: windlass.Spec{Tags: map[string]string{"a": "1"}}}))
		c.WaitFor(time.Minute, "t", windlass.StatusFailed)
		if by := c.task("t").Spec.By; by != "ann" {
			t.Errorf("it has ended and is by %q", by)
		}
		works = true
		c.must(c.client.Rerun(as(`b"\`), windlass.Rerun{}, "t")[0])
		runs := func(n int) func() bool { return func() bool { return c.startsOf("t") == n } }
		c.WaitUntil(time.Minute, "it runs", runs(2))
		c.must(c.client.Rerun(as("carl"), windlass.Rerun{Live: true}, "t")[0])
		c.WaitUntil(time.Minute, "it runs again", runs(3))
		change := func(who string, do func(*windlass.Submission)) {
			_, err := c.client.Update(as(who), "t", func(s *windlass.Submission) error { do(s); return nil })
			c.must(err)
			c.Advance(time.Minute)
		}
		change("dora", func(s *windlass.Submission) { s.Spec.Tags = nil })
		change("eve", func(s *windlass.Submission) {}) // which changes nothing
		change("", func(s *windlass.Submission) { s.Props = []byte("1") })
		var details []string
		_, h := c.historyOf("t")
		for _, e := range h.Entries {
			if e.Event == statemachine.EventClaimed || e.Event == statemachine.EventUpdated {
				details = append(details, e.Detail)
			}
		}
		want := []string{"placed, submitted by ann", `placed, submitted by b"\`, "changed or restarted while this node held it, by carl", "its tags were changed, and its handler runs on, by dora", "changed or restarted while this node held it"}
		if !slices.Equal(details, want) {
			t.Errorf("the history has %q, want %q", details, want)
		}
		if why := c.explain("t").Decision; why != "changed or restarted while this node held it" || c.task("t").Spec.By != "" {
			t.Errorf("it was claimed because %q, and is by %q", why, c.task("t").Spec.By)
		}
	})
}

func TestHistory_SaysWhatWasChanged(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ann := windlass.WithCaller(t.Context(), "ann")
		n := c.join("n")
		c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Tags: map[string]string{"a": "1"}}, Props: []byte(`{"batch":10,"to":{"host":"x"}}`)})
		c.Submit(windlass.Submission{ID: "new", Spec: windlass.Spec{Priority: 1, NotBefore: time.Now().Add(time.Hour)}})
		c.WaitUntil(time.Minute, "it runs", c.allRunning(1))
		settle := func() { c.Advance(10 * time.Second) } // so that the node has written its part
		settle()
		change := func(ctx context.Context, id string, do func(*windlass.Submission)) {
			t.Helper()
			_, err := c.client.Update(ctx, id, func(s *windlass.Submission) error { do(s); return nil })
			c.must(err)
			settle()
		}
		change(ann, "t", func(s *windlass.Submission) { s.Props = []byte(`{"batch":20, "to":{"host":"x"}}`) })
		change(ann, "t", func(s *windlass.Submission) { s.Spec.Tags = nil })
		change(ann, "t", func(*windlass.Submission) {})                                // nothing
		change(t.Context(), "t", func(s *windlass.Submission) { s.Spec.Priority = 3 }) // nobody
		change(ann, "new", func(s *windlass.Submission) { s.Spec.Priority = 2 })       // no history
		c.must(c.client.Rerun(ann, windlass.Rerun{Live: true}, "t")[0])                // as it is
		settle()
		c.must(n.Stop()) // it is pending
		_, errs := c.client.Enqueue(ann, []windlass.Submission{{ID: "t", Update: true, Props: []byte(`{"to":{"host":"` + strings.Repeat("é", 100) + `"}}`)}})
		c.must(errs[0])
		var got []string
		_, h := c.historyOf("t")
		for _, e := range h.Entries {
			if e.Event == statemachine.EventCommand {
				got = append(got, e.Detail)
			}
		}
		want := []string{
			"update, by ann: props.batch: 10 → 20",
			`update, by ann: tags: {"a":"1"} → none`,
			`update, by ann: priority: 3 → none; props.batch: 20 → none; props.to.host: "x" → "` + strings.Repeat("é", 29) + "…",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history says %q, want %q", got, want)
		}
		if _, err := inspect.New(c.client).History(t.Context(), "new"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("what never ran has a history: %v", err)
		}
	})
}

// TestHistory_NamesWhoDeletedATask that runs, one that is pending since its node left, and one
// that never ran, which has none.
func TestHistory_NamesWhoDeletedATask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.Submit(windlass.Submission{ID: "runs"}, windlass.Submission{ID: "waits"}, windlass.Submission{ID: "new", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
		c.WaitUntil(time.Minute, "they run", c.allRunning(2))
		c.Advance(10 * time.Second) // so that the histories are written
		delete := func(id string) {
			c.must(c.client.Delete(windlass.WithCaller(t.Context(), "ann"), id))
		}
		wantEnd := func(id string, want ...string) {
			t.Helper()
			var got []string
			c.WaitUntil(10*time.Second, "the history of "+id+" is written", func() bool {
				_, h := c.historyOf(id)
				got = nil
				for _, e := range h.Entries {
					got = append(got, string(e.Event)+" "+e.Detail)
				}
				return len(got) >= len(want)
			})
			if !slices.Equal(got, want) {
				t.Errorf("the history of %s is %q, want %q", id, got, want)
			}
			if _, h := c.historyOf(id); h.Interruptions > 1 || id == "runs" && h.Interruptions > 0 {
				t.Errorf("%s: %d interruptions", id, h.Interruptions)
			}
		}
		delete("runs")
		wantEnd("runs", "claimed placed", "command delete, by ann", "released "+windlass.ErrDeleted.Error())
		c.must(n.Stop())
		c.WaitFor(time.Minute, "waits", windlass.StatusPending)
		delete("waits")
		wantEnd("waits", "claimed placed", "released the node is draining", "command delete, by ann")
		delete("new")
		if _, err := inspect.New(c.client).History(t.Context(), "new"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("one that never ran has a history: %v", err)
		}
		// It says nothing about the next task of that ID, and is in nobody's way.
		c.join("m")
		c.Submit(windlass.Submission{ID: "runs"})
		c.WaitUntil(time.Minute, "it runs again", c.allRunning(1))
		wantEnd("runs", "claimed placed", "command delete, by ann", "released "+windlass.ErrDeleted.Error(), "claimed placed")
	})
}

func TestHistory_NamesWhoSentACommandAndACordonWhoMadeIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n")
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitFor(time.Minute, "t", windlass.StatusRunning)
		ann := windlass.WithCaller(t.Context(), "ann")
		long := windlass.WithCaller(t.Context(), strings.Repeat("é", 200)+"\xff")
		for _, as := range []struct {
			ctx     context.Context
			message statemachine.Message
		}{{ann, statemachine.Checkpoint}, {ann, statemachine.Pause}, {t.Context(), statemachine.Run}, {long, statemachine.Pause}} {
			sent, err := c.client.SendTask(as.ctx, "t", statemachine.Command{Message: as.message})
			c.must(err)
			_, err = c.client.AwaitCommand(t.Context(), sent)
			c.must(err)
		}
		want := []string{"pause, by ann", "run", "pause, by " + strings.Repeat("é", 62) + "…"}
		var details []string
		c.WaitUntil(5*time.Second, "the commands are in the history", func() bool {
			details = nil
			_, h := c.historyOf("t")
			for _, e := range h.Entries {
				if e.Event == statemachine.EventCommand {
					details = append(details, e.Detail)
				}
			}
			return len(details) == len(want)
		})
		if !slices.Equal(details, want) {
			t.Errorf("the commands are %q, want %q", details, want)
		}
		_, err := operate.New(c.client).Cordon(ann, "n", "its disk")
		c.must(err)
		if cordons, err := operate.New(c.client).Cordons(t.Context()); err != nil || cordons["n"].By != "ann" || cordons["n"].Reason != "its disk" {
			t.Errorf("cordons: %+v, %v", cordons, err)
		}
	})
}

// A handler may start a process again and again: lists show how often, and the history that it
// began, once. They are those of a handler, which its claim may outlive.
func TestHistory_RestartsShowInListsAndALoopOnceInTheHistory(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		restarts := make(chan statemachine.Restarts)
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			for {
				select {
				case r := <-restarts:
					claim.Restarted(r)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}))
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitFor(time.Minute, "t", windlass.StatusRunning)
		c.WaitUntil(time.Minute, "the claim is in the history", func() bool { told, _ := c.historyOf("t"); return told == "claimed@n" })
		reason := c.explain("t").Decision
		shown := func(want int) func() bool {
			return func() bool { r := c.task("t").Restarts; return r != nil && r.Count == want }
		}
		if r := c.task("t").Restarts; r != nil {
			t.Errorf("before a restart it has %+v", r)
		}
		for n := 1; n <= 3*statemachine.RestartsMany; n++ {
			restarts <- statemachine.Restarts{Count: n, InARow: 1 + (n-1)%statemachine.RestartsMany, LastEnd: "exit code 1\nmore", LastAt: time.Now()}
			c.WaitUntil(time.Minute, "the restart shows", shown(n))
		}
		told, h := c.historyOf("t")
		if told != "claimed@n looping@n" || h.Entries[1].Detail != "restart 5 in a row: exit code 1" {
			t.Errorf("the history is %q, %+v", told, h.Entries)
		}
		if d := c.task("t"); d.Restarts.LastEnd != "exit code 1" || d.ClaimedAt == nil || c.explain("t").Decision != reason {
			t.Errorf("%+v, claimed %v because %q", d.Restarts, d.ClaimedAt, c.explain("t").Decision)
		}
		c.Advance(loopEvery)
		restarts <- statemachine.Restarts{Count: 99, InARow: statemachine.RestartsMany, LastEnd: "exit code 2", LastAt: time.Now()}
		c.WaitUntil(time.Minute, "it is told again later", func() bool { told, _ := c.historyOf("t"); return told == "claimed@n looping@n looping@n" })
		c.sendTask("t", statemachine.Pause)
		c.WaitFor(time.Minute, "t", windlass.StatusPaused)
		c.sendTask("t", statemachine.Run)
		c.WaitFor(time.Minute, "t", windlass.StatusRunning)
		c.WaitUntil(time.Minute, "the next handler of the claim has no restarts", func() bool { return c.task("t").Restarts == nil })
		if d := c.task("t"); d.ClaimedAt == nil || c.explain("t").Decision != reason {
			t.Errorf("claimed %v because %q, want %q", d.ClaimedAt, c.explain("t").Decision, reason)
		}
		restarts <- statemachine.Restarts{Count: 1, InARow: 1, LastEnd: "exit code 3", LastAt: time.Now()}
		c.WaitUntil(time.Minute, "and counts anew", shown(1))
	})
}

// loopEvery is the least time between two entries that a loop begins.
const loopEvery = time.Hour
