package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/statemachine"
)

// givenOnce returns a submission that sets everything, and a run that fails until *works and
// checks what the task was given.
func givenOnce(t *testing.T, works *bool) (windlass.Submission, run) {
	s := windlass.Submission{
		ID: "a", Props: json.RawMessage(`{ "html":"<a> & \u2028", "n": 1.50 }`),
		Spec: windlass.Spec{
			Priority: 3, Weight: 2, Needs: []string{"z", "y"}, Prefer: map[string]string{"zone": "x"}, Group: "g", OnFailure: windlass.FailureSkips,
			NotBefore: time.Now().Add(time.Second), Timeout: windlass.Duration(time.Hour), Retry: &windlass.Retry{Errors: 1},
		},
	}
	props := func(value []byte) (p map[string]any) {
		if err := json.Unmarshal(value, &p); err != nil {
			t.Errorf("%s: %v", value, err)
		}
		return p
	}
	return s, func(_ context.Context, claim *windlass.Claim) error {
		got := claim.Spec()
		if got.Priority != 3 || got.Weight != 2 || len(got.Needs) != 2 || got.Group != "g" || got.Retry.Errors != 1 || !got.NotBefore.Equal(s.Spec.NotBefore) ||
			fmt.Sprint(props(claim.Props())) != fmt.Sprint(props(s.Props)) {
			t.Errorf("it was given %+v and %s", got, claim.Props())
		}
		if !*works {
			return errors.New("the disk is full")
		}
		<-time.After(time.Second)
		return nil
	}
}

func TestRetry_O04_WhatHasEndedRunsAgainAsItWasSubmitted(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx, works := t.Context(), false
		given, do := givenOnce(t, &works)
		c.join("n", running(do))
		c.Submit(given)
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		before, err := c.client.Task(ctx, "a")
		if err != nil || before.Spec == nil || before.Spec.Group != "g" || len(before.Props) == 0 || before.State.Props != nil {
			t.Errorf("it is shown as %+v, %v", before, err)
		}
		works = true
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a")[0]; err != nil {
			t.Fatal(err)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a")[0]; !errors.Is(err, windlass.ErrExists) {
			t.Errorf("while it is live: %v", err)
		}
		c.WaitFor(time.Minute, "a", windlass.StatusCompleted)
		after, err := c.client.Task(ctx, "a")
		if err != nil || len(after.Errors) != 0 || !after.SubmittedAt.After(*before.SubmittedAt) || string(after.Props) != string(before.Props) {
			t.Errorf("it is shown as %+v, %v", after, err)
		}
		if err := c.client.Submit(ctx, given); !windlass.AlreadySubmitted(err) {
			t.Errorf("the same submission once more: %v", err)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a")[0]; err != nil { // what has completed, too
			t.Fatal(err)
		}
		c.WaitFor(time.Minute, "a", windlass.StatusCompleted)
		if n := c.startsOf("a"); n != 3 {
			t.Errorf("it was started %d times", n)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "nobody")[0]; !errors.Is(err, windlass.ErrNotFound) {
			t.Error(err)
		}
		if _, bad := errors.AsType[*windlass.BadInputError](c.client.Rerun(ctx, windlass.Rerun{}, "")[0]); !bad {
			t.Error("an empty ID is no bad input")
		}
		c.Advance(time.Second)
		if _, err := c.client.Prune(ctx, windlass.Retention{Age: time.Nanosecond}, windlass.Filter{}, false); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a")[0]; !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("what was forgotten: %v", err)
		}
	})
}

func TestRetry_O04_AThousandFailedTasksByWhatTheyFailedWith(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		works := false
		c.join("n", handlers(map[string]run{"import": func(_ context.Context, claim *windlass.Claim) error {
			var n int
			if err := json.Unmarshal(claim.Props(), &n); err != nil || works {
				return err
			}
			switch {
			case n < 2:
				return windlass.Permanent(fmt.Errorf("exited: exit code %d after %dms", 3+n, n))
			case n < 4:
				return windlass.Permanent(fmt.Errorf("set aside: the process that ran it died 2 times, on %s", []string{"east, west", "north"}[n-2]))
			case n%10 == 0:
				return windlass.Permanent(fmt.Errorf("row %d has no name\nin file %s", n, claim.ID()))
			}
			return windlass.Permanent(fmt.Errorf("connect to 10.0.0.%d:%d: connection refused", n, 1000+n))
		}}))
		all := make([]windlass.Submission, 1000)
		for n := range all {
			all[n] = windlass.Submission{ID: fmt.Sprintf("t%03d", n), Spec: windlass.Spec{Type: "import"}, Props: json.RawMessage(fmt.Sprint(n))}
		}
		if err := errors.Join(c.client.SubmitAll(t.Context(), all)...); err != nil {
			t.Fatal(err)
		}
		failed := windlass.Filter{Statuses: []windlass.Status{windlass.StatusFailed}}
		c.WaitUntil(time.Minute, "all fail", func() bool { return c.count(windlass.StatusFailed) == 1000 })
		groups, err := inspect.New(c.client).Failures(t.Context(), windlass.Filter{})
		if err != nil || len(groups) != 5 || groups[0].Tasks != 897 || groups[1].Tasks != 99 || groups[2].Tasks != 2 || groups[4].Error != "exited: exit code 4 after 1ms" || len(groups[0].IDs) != inspect.FailureIDsMax || groups[1].Type != "import" {
			t.Errorf("the failures are %+v, %v", groups, err)
		}
		works, failed.Error = true, "connection refused"
		tasks, err := c.client.Tasks(t.Context(), failed)
		if err != nil || len(tasks) != 897 {
			t.Fatalf("%d tasks are selected: %v", len(tasks), err)
		}
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		for _, err := range c.client.Rerun(t.Context(), windlass.Rerun{}, append(ids, "nobody")...) {
			if err != nil && !errors.Is(err, windlass.ErrNotFound) {
				t.Error(err)
			}
		}
		c.WaitUntil(time.Minute, "those complete", func() bool { return c.count(windlass.StatusCompleted) == 897 && c.count(windlass.StatusFailed) == 103 })
	})
}

// In a bad deploy most tasks are about to be tried again: what is wrong shows before they have failed.
func TestRetry_O04_FailuresHaveWhatIsToBeTriedAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]run{"import": func(ctx context.Context, claim *windlass.Claim) error {
			switch claim.ID() {
			case "fails":
				return windlass.Permanent(errors.New("no route to 10.0.0.1"))
			case "retries":
				return errors.New("no route to 10.0.0.2")
			case "sleeps":
				return windlass.Message(statemachine.SleepUntil(time.Now().Add(time.Hour)))
			}
			return untilStopped(ctx, claim)
		}}))
		for _, id := range []string{"fails", "retries", "sleeps", "runs"} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "import", Retry: &windlass.Retry{Min: windlass.Duration(time.Hour), Max: windlass.Duration(time.Hour)}}})
		}
		c.WaitFor(time.Minute, "fails", windlass.StatusFailed)
		c.WaitFor(time.Minute, "retries", windlass.StatusSleeping)
		c.WaitFor(time.Minute, "sleeps", windlass.StatusSleeping)
		groups, err := inspect.New(c.client).Failures(t.Context(), windlass.Filter{})
		if c.must(err); len(groups) != 1 {
			t.Fatalf("%+v", groups)
		}
		g := groups[0]
		if g.Tasks != 2 || g.Statuses[windlass.StatusFailed] != 1 || g.Statuses[windlass.StatusSleeping] != 1 || len(g.IDs) != 2 || g.FirstAt == nil || g.LastAt == nil || g.LastAt.Before(*g.FirstAt) {
			t.Errorf("%+v", g)
		}
	})
}

// A retry is of the end that its caller has seen, however late it arrives.
func TestRetry_O04_OneThatComesLateRunsNothingTwice(t *testing.T) {
	inVerified(t, func(t *testing.T, c *cluster) {
		ctx, works := t.Context(), false
		c.joinFaulty("n", "", running(func(context.Context, *windlass.Claim) error {
			if works {
				return nil
			}
			return windlass.Permanent(errors.New("no"))
		}))
		c.Submit(windlass.Submission{ID: "a"})
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		works = true
		late := c.clientBehind(`delay-request 5s on commit below "/test/tasks/" call 2`)
		result := make(chan error, 1)
		go func() { result <- late.Rerun(ctx, windlass.Rerun{}, "a")[0] }()
		c.Advance(time.Second)
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a")[0]; err != nil {
			t.Fatal(err)
		}
		c.WaitFor(10*time.Second, "a", windlass.StatusCompleted)
		c.Advance(time.Minute)
		if err := <-result; !errors.Is(err, windlass.ErrFinished) {
			t.Errorf("the late one: %v", err)
		}
		if n := c.startsOf("a"); n != 2 {
			t.Errorf("it was started %d times", n)
		}
	})
}

func TestRetry_O04_JobsAndWhatCallersTookAndFailed(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		data := func(s *windlass.Submission) { s.Props, s.Spec.Weight = json.RawMessage(`{"url":"x"}`), 3 }
		c.job("a_t", data)
		d := c.detach("t", "a_t")
		if err := lease.New(c.client, nil).Fail(ctx, "a_t", d.Token, windlass.Permanent(errors.New("no"))); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "a_t")[0]; err != nil {
			t.Fatal(err)
		}
		task, err := c.client.Task(ctx, "a_t")
		if err != nil || task.Status != windlass.StatusPending || !task.Spec.Job || task.Spec.Weight != 3 || string(task.Props) != `{"url":"x"}` {
			t.Errorf("it is %+v, %v", task, err)
		}
		c.Submit(windlass.Submission{ID: "b", Spec: windlass.Spec{Type: "u"}, Props: json.RawMessage(`7`)})
		d = c.detach("u", "b")
		if err := lease.New(c.client, nil).Fail(ctx, "b", d.Token, windlass.Permanent(errors.New("no"))); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Rerun(ctx, windlass.Rerun{}, "b")[0]; err != nil {
			t.Fatal(err)
		}
		if task, err := c.client.Task(ctx, "b"); err != nil || string(task.Props) != "7" {
			t.Errorf("it is %+v, %v", task, err)
		}
	})
}

func TestContinue_O04_GoesOnFromTheLastCheckpointAndARetryDoesNot(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx, begunAt := t.Context(), []string{}
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			progress, err := claim.Progress(ctx)
			begunAt = append(begunAt, string(progress))
			if err = errors.Join(err, claim.Checkpoint(ctx, len(begunAt))); err != nil {
				t.Error(err)
			}
			if len(begunAt) == 3 {
				<-ctx.Done()
			}
			return windlass.Permanent(errors.New("no"))
		}))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`{"n":1}`)})
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		c.must(c.client.Rerun(ctx, windlass.Rerun{KeepProgress: true}, "a")[0])
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		c.must(c.client.Rerun(ctx, windlass.Rerun{}, "a")[0])
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		if err := c.client.Rerun(ctx, windlass.Rerun{KeepProgress: true}, "a")[0]; !errors.Is(err, windlass.ErrExists) {
			t.Errorf("while it runs: %v", err)
		}
		c.sendTask("a", statemachine.Kill)
		c.WaitFor(time.Minute, "a", windlass.StatusKilled)
		if errs := c.client.Rerun(ctx, windlass.Rerun{KeepProgress: true}, "a", "nobody"); errs[0] != nil || !errors.Is(errs[1], windlass.ErrNotFound) {
			t.Error(errs)
		}
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		if want := []string{"", "1", "", "3"}; !slices.Equal(begunAt, want) {
			t.Errorf("the runs began at %q, want %q", begunAt, want)
		}
		if task, err := c.client.Task(ctx, "a"); err != nil || string(task.Props) != `{"n":1}` {
			t.Errorf("it is %+v, %v", task, err)
		}
	})
}

// What the change leaves alone stays, in tasks and in jobs of the tree, and the history says
// who changed what.
func TestRetry_O04_WithAChangeKeepsTheRest(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ann := windlass.WithCaller(t.Context(), "ann")
		given := windlass.Submission{ID: "a", Props: json.RawMessage(`{"customer":7}`), Spec: windlass.Spec{
			Type: "u", Tags: map[string]string{"tenant": "t7"}, Prefer: map[string]string{"disk": "ssd"}, Timeout: windlass.Duration(time.Hour),
			Retry: &windlass.Retry{Errors: 5}, OnFailure: windlass.FailureSkips, Priority: 3,
		}}
		c.Submit(given)
		c.job("b_t", func(s *windlass.Submission) { s.Props, s.Spec.Weight = json.RawMessage(`{"customer":7}`), 3 })
		fail := func(id, taskType string) {
			t.Helper()
			d := c.detach(taskType, id)
			c.commit(broker.Put("/test/progress/"+id, []byte(`42`)))
			c.must(lease.New(c.client, nil).Fail(ann, id, d.Token, windlass.Permanent(errors.New("no"))))
			c.Advance(time.Second)
		}
		to := func(n int) func(*windlass.Submission) error {
			return func(s *windlass.Submission) error {
				s.ID, s.Rerun, s.Update = "other", true, true // without effect
				s.Props = json.RawMessage(fmt.Sprintf(`{"customer":%d}`, n))
				return nil
			}
		}
		want := func(id string, customer int, progress string) {
			t.Helper()
			d, err := c.client.Task(ann, id)
			c.must(err)
			p, err := c.client.Progress(ann, id)
			c.must(err)
			if d.Status != windlass.StatusPending || string(d.Props) != fmt.Sprintf(`{"customer":%d}`, customer) || string(p) != progress {
				t.Errorf("%s is %s with %s and the progress %q", id, d.Status, d.Props, p)
			}
			if s := d.Spec; id == "a" && (s.Tags["tenant"] != "t7" || s.Prefer["disk"] != "ssd" || s.Timeout != given.Spec.Timeout || s.Retry.Errors != 5 || s.OnFailure != windlass.FailureSkips || s.By != "ann") ||
				id == "b_t" && (!s.Job || s.Weight != 3) {
				t.Errorf("of %s is left %+v", id, s)
			}
		}
		fail("a", "u")
		fail("b_t", "t")
		c.must(c.client.Rerun(ann, windlass.Rerun{Change: to(8)}, "a")[0])
		c.must(c.client.Rerun(ann, windlass.Rerun{Change: to(8)}, "b_t")[0])
		want("a", 8, "")
		want("b_t", 8, "")
		fail("a", "u")
		fail("b_t", "t")
		c.must(errors.Join(c.client.Rerun(ann, windlass.Rerun{KeepProgress: true, Change: func(s *windlass.Submission) error {
			s.Spec.Priority++
			return to(9)(s)
		}}, "a", "b_t")...))
		want("a", 9, "42")
		want("b_t", 9, "42")
		if s, err := c.client.Task(ann, "a"); err != nil || s.Spec.Priority != 4 {
			t.Errorf("%+v, %v", s.Spec, err)
		}
		for id, priority := range map[string]string{"a": "3 → 4", "b_t": "none → 1"} {
			var notes []string
			_, h := c.historyOf(id)
			for _, e := range h.Entries {
				if e.Event == statemachine.EventCommand {
					notes = append(notes, e.Detail)
				}
			}
			if want := []string{"retry, by ann: props.customer: 7 → 8", "continue, by ann: priority: " + priority + "; props.customer: 8 → 9"}; !slices.Equal(notes, want) {
				t.Errorf("the history of %s says %q, want %q", id, notes, want)
			}
		}
	})
}

// TestRetry_O04_…: nodes write history when they have nothing else to do.
func TestRetry_O04_AChangeIsNotedBeforeTheNodeHasWrittenItsPart(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		works := false
		c.joinFaulty("n", `delay-request 5s on commit below "/test/history/"`, running(func(ctx context.Context, claim *windlass.Claim) error {
			if works {
				return untilStopped(ctx, claim)
			}
			return windlass.Permanent(errors.New("no"))
		}))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		works = true
		c.must(c.client.Rerun(windlass.WithCaller(t.Context(), "ann"), windlass.Rerun{Change: setProps(`2`)}, "a")[0])
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		c.Advance(time.Minute)
		_, h := c.historyOf("a")
		var events []string
		for _, e := range h.Entries {
			events = append(events, string(e.Event))
			if e.Event == statemachine.EventCommand && e.Detail != "retry, by ann: props: 1 → 2" {
				t.Errorf("it says %q", e.Detail)
			}
		}
		slices.Sort(events) // those of one claim are in the order in which they were written
		if want := []string{"claimed", "claimed", "command", "failed"}; !slices.Equal(events, want) || h.Interruptions != 0 {
			t.Errorf("the history has %q and %d interruptions, want %q", events, h.Interruptions, want)
		}
	})
}

// A retry with a change that is refused leaves what has ended as it is.
func TestRetry_O04_AChangeThatIsRefusedRunsNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx, refuses := t.Context(), errors.New("no")
		c.join("n", running(done))
		c.Submit(windlass.Submission{ID: "a"})
		c.Submit(windlass.Submission{ID: "b"})
		c.WaitFor(time.Minute, "a", windlass.StatusCompleted)
		c.WaitFor(time.Minute, "b", windlass.StatusCompleted)
		if err := c.client.Rerun(ctx, windlass.Rerun{Change: func(*windlass.Submission) error { return refuses }}, "a")[0]; !errors.Is(err, refuses) {
			t.Error(err)
		}
		for field, change := range map[string]func(*windlass.Submission){
			"props":    func(s *windlass.Submission) { s.Props = json.RawMessage(`{`) },
			"job":      func(s *windlass.Submission) { s.Spec.Job = true },
			"needs":    func(s *windlass.Submission) { s.Spec.Needs = []string{"a"} },
			"priority": func(s *windlass.Submission) { s.Spec.Priority = 1001 },
		} {
			err := c.client.Rerun(ctx, windlass.Rerun{Change: func(s *windlass.Submission) error { change(s); return nil }}, "a")[0]
			if input, ok := errors.AsType[*windlass.BadInputError](err); !ok || input.Field != field {
				t.Errorf("%v, want an error that names %s", err, field)
			}
		}
		errs := c.client.Rerun(ctx, windlass.Rerun{Change: func(s *windlass.Submission) error {
			if s.ID == "a" {
				return refuses
			}
			return nil
		}}, "a", "b")
		if !errors.Is(errs[0], refuses) || errs[1] != nil {
			t.Error(errs)
		}
		c.WaitUntil(time.Minute, "the other runs again", func() bool { return c.startsOf("b") == 2 })
		if c.startsOf("a") != 1 {
			t.Errorf("a was started %d times", c.startsOf("a"))
		}
	})
}

// An older version has not written down what a task was submitted with.
func TestRetry_O04_RunsNothingWithLessThanItHad(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(done))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusCompleted)
		record, err := statemachine.Parse(c.get("/test/state/a").Value)
		if err != nil {
			t.Fatal(err)
		}
		record.Props = nil
		value, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		c.commit(broker.Put("/test/state/a", value))
		if err := c.client.Rerun(t.Context(), windlass.Rerun{}, "a")[0]; !errors.Is(err, windlass.ErrNoInput) {
			t.Error(err)
		}
	})
}
