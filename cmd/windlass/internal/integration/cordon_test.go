package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

func (c *cluster) cordon(node, reason string) {
	c.t.Helper()
	_, err := operate.New(c.client).Cordon(c.t.Context(), node, reason)
	c.must(err)
}

func (c *cluster) uncordon(node string) {
	c.t.Helper()
	c.must(operate.New(c.client).Uncordon(c.t.Context(), node))
}

func TestCordon_O01_ANodeKeepsWhatItHasAndGetsNothingUntilTheEndOfIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(4))
		c.cordon("a", "its disk is replaced")
		c.Advance(time.Second)
		c.Submit(windlass.Submission{ID: "more"})
		c.Advance(time.Minute)
		if n, s := c.runningOn("a"), c.status("more"); n != 4 || s != windlass.StatusPending {
			t.Errorf("it runs %d tasks of 4, and a new one is %s", n, s)
		}
		for range 2 { // it is said once more with another reason
			if got := c.nodes()[0].Cordon; got == nil || got.At.IsZero() || !strings.HasPrefix(got.Reason, "its disk is ") {
				t.Errorf("its cordon is shown as %+v", got)
			}
			c.cordon("a", "its disk is too small")
		}
		if e := c.explain("more"); len(e.Nodes) != 1 || !strings.Contains(e.Nodes[0].Why, "cordoned") {
			t.Errorf("%+v", e)
		}
		c.uncordon("a")
		c.WaitUntil(time.Minute, "all run", c.allRunning(5))
		if err := operate.New(c.client).Uncordon(t.Context(), "a"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("what has no cordon was uncordoned: %v", err)
		}
	})
}

func TestCordon_O01_HoldsOverRestartsAndWhileTheNodeIsAway(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a")
		c.submit(6, windlass.Spec{})
		c.cordon("b", "")
		b := c.join("b")
		for _, restart := range []func(*windlasstest.Node){
			func(n *windlasstest.Node) { n.Kill() },
			func(n *windlasstest.Node) { _ = n.Stop() }, // and the error is looked at in the end
		} {
			c.Advance(30 * time.Second)
			restart(b)
			c.Advance(30 * time.Second)
			if got, err := operate.New(c.client).Cordons(t.Context()); err != nil || len(got) != 1 || got["b"].At.IsZero() {
				t.Errorf("the cordons are %v, %v", got, err)
			}
			b = b.Restart()
		}
		c.Advance(30 * time.Second)
		for id, n := range c.starts() {
			if n != 1 || c.holders()[id] != "a" {
				t.Errorf("%s was started %d times, and runs on %s", id, n, c.holders()[id])
			}
		}
		c.uncordon("b")
		c.WaitUntil(time.Minute, "b has its share", func() bool { return c.runningOn("b") == 3 })
	})
}

func TestCordon_O01_ADrainCordonsToo(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a")
		b := c.join("b")
		c.submit(6, windlass.Spec{})
		c.WaitUntil(time.Minute, "b has its share", func() bool { return c.runningOn("b") == 3 })
		c.send("b", operate.Drain, "")
		c.WaitUntil(time.Minute, "it has given everything away", func() bool { return c.runningOn("a") == 6 })
		_ = b.Stop()
		b.Restart()
		c.Advance(time.Minute)
		if n := c.runningOn("b"); n != 0 {
			t.Errorf("it runs %d tasks after a restart", n)
		}
		c.send("b", operate.Unfreeze, "") // is about another thing
		c.send("b", operate.Drain, "")    // when it is cordoned already
		c.Advance(time.Minute)
		if n := c.runningOn("b"); n != 0 {
			t.Errorf("it runs %d tasks", n)
		}
		c.uncordon("b")
		c.WaitUntil(time.Minute, "b has its share again", func() bool { return c.runningOn("b") == 3 })
		if nodes := c.nodes(); nodes[1].Draining || nodes[1].Cordon != nil {
			t.Errorf("%+v", nodes[1])
		}
	})
}

// A delayed request must not cordon a node again.
func TestCordon_O01_OneThatArrivesLateDoesNotUndoItsEnd(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.join("a")
		client := w.clientBehind(`late 20s on commit below "/test/nodes/" call 1`)
		_, err := operate.New(client).Cordon(t.Context(), "a", "")
		w.must(err)
		w.uncordon("a")
		w.Advance(time.Minute)
		if got, err := operate.New(client).Cordons(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("the cordons are %v, %v", got, err)
		}
	})
}

// The reply to a request is lost, or the request itself, and meanwhile another client has
// changed the cordon: that something else is stored does not mean that this was.
func TestCordon_O01_IsWhatItsCallerWasToldWhateverWasLost(t *testing.T) {
	for _, lost := range []string{"lose-request", "lose-reply"} {
		inVerified(t, func(t *testing.T, w *cluster) {
			ctx := t.Context()
			client := w.clientBehind(lost + ` 2s on commit below "/test/nodes/" call 1`)
			meanwhile := func(change, other func() error) {
				t.Helper()
				told := make(chan error, 1)
				go func() { told <- change() }()
				w.Advance(time.Second)
				w.must(other())
				w.Advance(time.Minute)
				w.must(<-told)
			}
			cordonOn := func(c *windlass.Client, reason string) func() error {
				return func() error {
					_, err := operate.New(c).Cordon(ctx, "a", reason)
					return err
				}
			}
			meanwhile(cordonOn(client, "mine"), cordonOn(w.client, "theirs"))
			if got, err := operate.New(w.client).Cordons(ctx); err != nil || got["a"].Reason != "mine" {
				t.Errorf("%s of a cordon: %v, %v", lost, got, err)
			}
			client = w.clientBehind(lost + ` 2s on commit below "/test/nodes/" call 1`)
			meanwhile(func() error { return operate.New(client).Uncordon(ctx, "a") }, cordonOn(w.client, "theirs"))
			if got, err := operate.New(w.client).Cordons(ctx); err != nil || len(got) != 0 {
				t.Errorf("%s of its end: %v, %v", lost, got, err)
			}
		})
	}
}

func TestCordon_O01_AReasonThatIsTooLongAndANameThatIsNoneAreRefused(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var wrong *windlass.BadInputError
		long := strings.Repeat("x", operate.ReasonBytesMax)
		if _, err := operate.New(c.client).Cordon(t.Context(), "a", long+"x"); !errors.As(err, &wrong) || wrong.Field != "reason" {
			t.Errorf("%v", err)
		}
		if _, err := operate.New(c.client).Cordon(t.Context(), "a/b", ""); !errors.As(err, &wrong) || wrong.Field != "node name" {
			t.Errorf("%v", err)
		}
		c.cordon("a", long)
		c.put("/test/nodes/b/cordon", "by hand")
		got, err := operate.New(c.client).Cordons(t.Context())
		if err != nil || got["a"].Reason != long || !strings.Contains(got["b"].Reason, "by hand") {
			t.Errorf("%v, %v", got, err)
		}
	})
}
