package integration_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

func (c *cluster) pauseType(taskType string) {
	c.t.Helper()
	c.must(operate.New(c.client).PauseType(c.t.Context(), taskType, "its database is moved"))
}

func (c *cluster) resumeType(taskType string) {
	c.t.Helper()
	c.must(operate.New(c.client).ResumeType(c.t.Context(), taskType))
}

// typed submits n tasks of a type, and returns their IDs.
func (c *cluster) typed(taskType string, n int) (ids []string) {
	c.t.Helper()
	for i := range n {
		ids = append(ids, taskType+"-"+string(rune('a'+i)))
		c.Submit(windlass.Submission{ID: ids[i], Spec: windlass.Spec{Type: taskType}})
	}
	return ids
}

func (c *cluster) allAre(ids []string, want windlass.Status) func() bool {
	return func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return c.status(id) != want })
	}
}

func TestTypePause_O09_StopsWhatRunsAndWhatComesAndResumingRunsItWhereItIs(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		broken := true
		for _, name := range []string{"n1", "n2"} {
			c.join(name, also("flaky", func(ctx context.Context, claim *windlass.Claim) error {
				if broken {
					return errors.New("no database")
				}
				return untilStopped(ctx, claim)
			}))
		}
		ids, others := c.typed("import", 6), c.typed("mail", 2)
		c.Submit(windlass.Submission{ID: "flaky-a", Spec: windlass.Spec{Type: "flaky", Retry: &windlass.Retry{Errors: 3, Min: windlass.Duration(time.Minute)}}})
		c.WaitUntil(time.Minute, "all run", c.allRunning(8))
		c.WaitFor(time.Minute, "flaky-a", windlass.StatusSleeping)
		c.sendTask("import-a", statemachine.Pause)
		c.WaitFor(time.Minute, "import-a", windlass.StatusPaused)
		tokens, before := map[string]int64{}, c.starts()
		for _, id := range ids {
			tokens[id] = c.task(id).Token
		}
		c.pauseType("import")
		c.pauseType("flaky")
		c.WaitUntil(time.Second, "all of them are paused", c.allAre(ids, windlass.StatusPaused))
		c.Submit(windlass.Submission{ID: "late", Spec: windlass.Spec{Type: "import"}})
		c.Advance(10 * time.Minute)
		for _, id := range []string{"late", "flaky-a"} {
			c.wantStatus(id, windlass.StatusPaused)
		}
		if n := c.moves(before); n != 0 || len(c.holders()) != len(others) || len(c.task("flaky-a").Errors) != 1 {
			t.Errorf("while they are paused %d handlers were started, and %v run", n, c.holders())
		}
		if why := c.explain("late").Why; !strings.HasPrefix(why, "its type is paused since ") || !strings.HasSuffix(why, ": its database is moved") {
			t.Error(why)
		}
		c.sendTask("import-b", statemachine.Pause) // now it is paused by itself
		c.sendTask("import-c", statemachine.Run)   // its type is paused all the same
		c.Advance(time.Minute)
		broken = false
		c.resumeType("import")
		c.resumeType("flaky")
		c.WaitUntil(5*time.Second, "they run again", c.allAre(append(ids[2:], "late", "flaky-a"), windlass.StatusRunning))
		c.Advance(time.Minute)
		for _, id := range ids {
			want := windlass.StatusRunning
			if id == "import-a" || id == "import-b" {
				want = windlass.StatusPaused
			}
			c.wantStatus(id, want)
			if d := c.task(id); d.Token != tokens[id] || len(d.Errors) != 0 {
				t.Errorf("%s is held with token %d, before with %d, and has the errors %v", id, d.Token, tokens[id], d.Errors)
			}
		}
		if err := operate.New(c.client).ResumeType(t.Context(), "import"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("what is not paused was resumed: %v", err)
		}
	})
}

func TestTypePause_O09_HoldsForNodesThatComeAndGo(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		ids := c.typed("import", 8)
		c.WaitUntil(time.Minute, "all run", c.allRunning(8))
		c.Advance(30 * time.Second)
		c.pauseType("import")
		c.WaitUntil(time.Second, "all of them are paused", c.allAre(ids, windlass.StatusPaused))
		before := c.starts()
		b := c.join("b")
		c.Advance(time.Minute) // it gets its share
		a.Kill()
		c.Advance(time.Minute)
		c.must(b.Stop())
		last := c.join("c")
		c.Advance(time.Minute)
		if n := c.moves(before); n != 0 || c.count(windlass.StatusPaused) != 8 {
			t.Errorf("%d handlers were started, and %d tasks are paused", n, c.count(windlass.StatusPaused))
		}
		c.must(last.Stop())
		c.resumeType("import") // and nobody is there
		c.join("d")
		c.WaitUntil(time.Minute, "all run", c.allRunning(8))
		if n := c.moves(before); n != 8 {
			t.Errorf("%d handlers were started", n)
		}
	})
}

// A handler takes its time to stop. Meanwhile the type is resumed, or its node is to give
// the task away.
func TestTypePause_O09_WhileAHandlerIsOnItsWayOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		slow := running(func(ctx context.Context, claim *windlass.Claim) error {
			<-ctx.Done()
			<-time.After(5 * time.Second)
			return errors.New("interrupted")
		})
		c.join("a", slow)
		ids := c.typed("import", 2)
		c.WaitUntil(time.Minute, "all run", c.allRunning(2))
		token := c.task(ids[0]).Token
		c.pauseType("import")
		c.Advance(time.Second)
		c.wantStatus(ids[0], windlass.StatusRunning) // its handler has not returned
		c.resumeType("import")
		c.WaitUntil(10*time.Second, "they run again", func() bool { return c.startsOf(ids[0]) == 2 && c.startsOf(ids[1]) == 2 })
		if d := c.task(ids[0]); d.Token != token || len(d.Errors) != 0 {
			t.Errorf("it is %+v", d)
		}
		c.pauseType("import")
		c.Advance(time.Second)
		c.send("a", operate.Drain, `{}`)
		c.Advance(10 * time.Second)
		c.join("b", slow)
		c.WaitUntil(time.Minute, "b has them", func() bool { return c.task(ids[0]).Node == "b" && c.task(ids[1]).Node == "b" })
		c.WaitUntil(time.Minute, "all of them are paused", c.allAre(ids, windlass.StatusPaused))
		for i, cause := range c.causesOf(ids[0]) {
			if !errors.Is(cause, windlass.ErrTypePaused) {
				t.Errorf("run %d was stopped because %v", i, cause)
			}
		}
		c.resumeType("import")
		c.WaitUntil(time.Minute, "all run", c.allRunning(2))
		if n := c.startsOf(ids[0]); n != 3 || len(c.task(ids[0]).Errors) != 0 {
			t.Errorf("it was started %d times: %v", n, c.task(ids[0]).Errors)
		}
	})
}

func TestTypePause_O09_WhatCallersTake(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("a", pulling("import"))
		c.typed("import", 3)
		c.Advance(time.Second)
		held, detached := c.dequeue(n, "import"), c.detach("import", "import-b")
		c.pauseType("import")
		c.Advance(time.Second)
		if cause := context.Cause(held.Context()); !errors.Is(cause, windlass.ErrTypePaused) {
			t.Errorf("the caller is told %v", cause)
		}
		c.must(held.Complete(ctx))
		c.must(lease.New(c.client, nil).Fail(ctx, "import-b", detached.Token, errors.New("no")))
		c.Advance(time.Minute)
		if _, err := n.TryDequeue(ctx, "import"); !errors.Is(err, windlass.ErrEmpty) {
			t.Error(err)
		}
		if _, err := lease.New(c.client, nil).Dequeue(ctx, "import", "someone", 0); !errors.Is(err, windlass.ErrEmpty) || !strings.Contains(err.Error(), `type "import" is paused`) {
			t.Error(err)
		}
		c.wantStatus("import-c", windlass.StatusPending)
		if why := c.explain("import-c").Why; !strings.HasPrefix(why, "its type is paused since ") {
			t.Error(why)
		}
		c.resumeType("import")
		c.Advance(time.Minute)
		taken := []string{}
		for range 2 {
			d := c.dequeue(n, "import")
			taken = append(taken, d.ID())
			c.must(d.Complete(ctx))
		}
		if slices.Sort(taken); !slices.Equal(taken, []string{"import-b", "import-c"}) {
			t.Errorf("taken are %q", taken)
		}
	})
}

func TestTypePause_O09_TypesAndWhatIsRefused(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := windlass.WithCaller(t.Context(), "sam")
		c.join("a", handlers(map[string]run{"import": untilStopped, "": untilStopped}))
		c.typed("import", 2)
		c.Submit(windlass.Submission{ID: "plain"})
		c.WaitUntil(time.Minute, "all run", c.allRunning(3))
		c.join("any")
		c.join("pulls", pulling("import"))
		c.awaitNodes(3)
		c.must(operate.New(c.client).PauseType(ctx, "", "once"))
		c.must(operate.New(c.client).PauseType(ctx, "", "why not"))
		c.must(operate.New(c.client).PauseType(ctx, "not-yet", ""))
		c.WaitFor(time.Minute, "plain", windlass.StatusPaused)
		types, err := c.client.Types(ctx)
		c.must(err)
		if len(types) != 3 || types[0].Type != "" || types[1].Type != "import" || types[2].Type != "not-yet" {
			t.Fatalf("%+v", types)
		}
		if p := types[0].Pause; p == nil || p.Reason != "why not" || p.By != "sam" || p.At.IsZero() {
			t.Errorf("%+v", p)
		}
		if got := types[1]; got.Pause != nil || got.Tasks[windlass.StatusRunning] != 2 || !slices.Equal(got.Nodes, []string{"a", "any", "pulls"}) {
			t.Errorf("%+v", got)
		}
		if nodes := types[2].Nodes; !slices.Equal(nodes, []string{"any"}) {
			t.Errorf("%q run what nobody has named", nodes)
		}
		c.put("/test/nodes/_paused/import", "{")
		c.WaitUntil(time.Minute, "what cannot be read is a pause", c.allAre([]string{"import-a", "import-b"}, windlass.StatusPaused))
		for _, err := range []error{
			operate.New(c.client).PauseType(ctx, "a/b", ""), operate.New(c.client).PauseType(ctx, windlass.AnyType, ""), operate.New(c.client).ResumeType(ctx, "a/b"),
			operate.New(c.client).PauseType(ctx, "import", strings.Repeat("x", operate.ReasonBytesMax+1)),
		} {
			if input, bad := errors.AsType[*windlass.BadInputError](err); !bad {
				t.Errorf("%v", err)
			} else if input.Field != "type" && input.Field != "reason" {
				t.Errorf("%+v", input)
			}
		}
	})
}
