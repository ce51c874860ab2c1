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
	"github.com/windlass-go/windlass/statemachine"
)

// historyOf returns the history of a task as event@node. A star marks an interruption.
func (c *cluster) historyOf(id string) (string, statemachine.History) {
	c.t.Helper()
	h, err := c.client.History(c.t.Context(), id)
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
		if n, err := c.client.Interruptions(t.Context(), "t", "nobody"); err != nil || !maps.Equal(n, map[string]int{"t": 2}) {
			t.Errorf("interruptions: %v, %v", n, err)
		}
		if _, err := c.client.Interruptions(t.Context(), "a/b"); err == nil || !strings.Contains(err.Error(), "a/b") {
			t.Errorf("interruptions of an impossible ID: %v", err)
		}
		if d := c.task("t"); d.Status != windlass.StatusCompleted || len(d.Errors) > 0 {
			t.Errorf("%+v", d)
		}
	})
}

func TestHistory_M05_BadIDsAndUnknownTasksAreErrors(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var input *windlass.BadInputError
		if _, err := c.client.History(t.Context(), "a/b"); !errors.As(err, &input) {
			t.Errorf("%v", err)
		}
		if _, err := c.client.History(t.Context(), "a"); !errors.Is(err, windlass.ErrNotFound) {
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
		c.must(c.client.Retry(as(`b"\`), "t"))
		runs := func(n int) func() bool { return func() bool { return c.startsOf("t") == n } }
		c.WaitUntil(time.Minute, "it runs", runs(2))
		c.must(c.client.RestartAll(as("carl"), []string{"t"})[0])
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
		_, err := c.client.Cordon(ann, "n", "its disk")
		c.must(err)
		if cordons, err := c.client.Cordons(t.Context()); err != nil || cordons["n"].By != "ann" || cordons["n"].Reason != "its disk" {
			t.Errorf("cordons: %+v, %v", cordons, err)
		}
	})
}
