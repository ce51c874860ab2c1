package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/lease"
)

// tagged returns the spec of a type with tags, given as pairs.
func tagged(taskType string, pairs ...string) windlass.Spec {
	spec := windlass.Spec{Type: taskType, Tags: map[string]string{}}
	for pair := range slices.Chunk(pairs, 2) {
		spec.Tags[pair[0]] = pair[1]
	}
	return spec
}

// setTags returns a change of a task's tags, given as pairs.
func setTags(pairs ...string) func(*windlass.Submission) error {
	return func(s *windlass.Submission) error {
		s.Spec.Tags = tagged("", pairs...).Tags
		return nil
	}
}

// found returns the IDs and the statuses of selected tasks.
func (c *cluster) found(f windlass.Filter) string {
	c.t.Helper()
	tasks, err := c.client.Tasks(c.t.Context(), f)
	c.must(err)
	var found []string
	for _, task := range tasks {
		found = append(found, task.ID+":"+string(task.Status))
	}
	return strings.Join(found, " ")
}

// wantFound fails the test unless tags select just these tasks.
func (c *cluster) wantFound(want string, tags ...string) {
	c.t.Helper()
	if got := c.found(windlass.Filter{Tags: tagged("", tags...).Tags}); got != want {
		c.t.Errorf("%q select %q, want %q", tags, got, want)
	}
}

func TestTags_M22_SelectLiveTasksAndEndedOnes(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]run{"ends": done, "fails": failing, "runs": untilStopped}))
		for id, spec := range map[string]windlass.Spec{
			"completed": tagged("ends", "tenant", "t1", "team", "a"), "failed": tagged("fails", "tenant", "t1", "team", "b"),
			"running": tagged("runs", "tenant", "t1", "team", "b"), "pending": tagged("other", "tenant", "t2", "team", "b"), "plain": {Type: "ends"},
		} {
			c.Submit(windlass.Submission{ID: id, Spec: spec})
		}
		c.job("a_ends", func(s *windlass.Submission) {
			s.Spec.Tags, s.Props = tagged("", "tenant", "t1").Tags, json.RawMessage(`1`)
		})
		c.job("b_pulled", func(s *windlass.Submission) { s.Spec.Tags = tagged("", "tenant", "t3").Tags })
		d := c.detach("pulled", "b_pulled")
		c.must(lease.New(c.client, nil).Complete(t.Context(), "b_pulled", d.Token, nil))
		c.Advance(10 * time.Second)
		c.wantFound("a_ends:completed completed:completed failed:failed running:running", "tenant", "t1")
		c.wantFound("failed:failed running:running", "tenant", "t1", "team", "b")
		c.wantFound("completed:completed failed:failed pending:pending running:running", "team", "")
		c.wantFound("b_pulled:completed", "tenant", "t3")
		c.wantFound("", "tenant", "t1", "team", "c")
		counts, err := c.client.Count(t.Context(), windlass.Filter{Tags: map[string]string{"team": "b"}})
		if err != nil || fmt.Sprint(counts) != "map[failed:1 pending:1 running:1]" {
			t.Errorf("counts %v, %v", counts, err)
		}
		for _, id := range []string{"completed", "a_ends", "running"} {
			if d := c.task(id); d.Tags["tenant"] != "t1" || d.Spec == nil || d.Spec.Tags["tenant"] != "t1" {
				t.Errorf("%s is shown with %v and %+v", id, d.Tags, d.Spec)
			}
		}
		for id, want := range map[string]string{"a_ends": "1", "completed": ""} { // tags make no less of what they were
			c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, id)[0])
			c.WaitFor(10*time.Second, id, windlass.StatusCompleted)
			if d := c.task(id); string(d.Props) != want || d.Tags["tenant"] != "t1" {
				t.Errorf("%s was run again with %s and %v", id, d.Props, d.Tags)
			}
		}
	})
}

func TestTags_O04_OnlyTheFailedTasksThatHaveThemRunAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.join("n", running(failing), also("stays", untilStopped))
		c.Submit(windlass.Submission{ID: "deleted", Spec: windlass.Spec{Type: "stays"}})
		c.WaitFor(time.Minute, "deleted", windlass.StatusRunning)
		c.Advance(time.Second)
		c.remove("deleted") // its history has no tags
		for i := range 6 {
			c.Submit(windlass.Submission{ID: fmt.Sprintf("t%d", i), Spec: tagged("x", "tenant", fmt.Sprint(i%2), "n", fmt.Sprint(i))})
		}
		c.WaitUntil(time.Minute, "all have failed", func() bool { return c.count(windlass.StatusFailed) == 6 })
		odd := windlass.Filter{Tags: map[string]string{"tenant": "1"}}
		groups, err := inspect.New(c.client).Failures(ctx, odd)
		if err != nil || len(groups) != 1 || groups[0].Tasks != 3 {
			t.Errorf("%+v, %v", groups, err)
		}
		tasks, err := c.client.Tasks(ctx, odd)
		c.must(err)
		var ids []string
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		c.must(errors.Join(c.client.Rerun(ctx, windlass.Rerun{}, ids...)...))
		c.WaitUntil(time.Minute, "they have failed again", func() bool {
			return c.startsOf("t1") == 2 && c.startsOf("t3") == 2 && c.startsOf("t5") == 2 && c.count(windlass.StatusFailed) == 6
		})
		if n := c.startsOf("t0") + c.startsOf("t2") + c.startsOf("t4"); n != 3 {
			t.Errorf("the others were started %d times", n)
		}
		c.Advance(time.Minute)
		pruned, err := c.client.Prune(ctx, windlass.Retention{Age: time.Second}, odd, false)
		if err != nil || !slices.Equal(pruned.IDs, ids) {
			t.Errorf("%+v, %v", pruned, err)
		}
		c.wantFound("t0:failed t2:failed t4:failed", "tenant", "")
	})
}

func TestTags_M22_SinceSelectsWhatHasHappenedAfterATime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		end := make(chan struct{})
		c.join("n", handlers(map[string]run{"ends": done, "runs": untilStopped, "late": func(ctx context.Context, _ *windlass.Claim) error {
			select {
			case <-end:
			case <-ctx.Done():
			}
			return nil
		}}))
		submit := func(taskType string) {
			c.Submit(windlass.Submission{ID: taskType + time.Now().Format("05"), Spec: windlass.Spec{Type: taskType}})
			c.Advance(2 * time.Second)
		}
		for _, taskType := range []string{"ends", "late", "runs", "waits"} {
			submit(taskType)
		}
		since := windlass.Filter{Since: time.Now()}
		c.Advance(10 * time.Second)
		close(end)
		c.Advance(10 * time.Second)
		late := c.found(windlass.Filter{Types: []string{"late"}})
		if got := c.found(since); got != late {
			t.Errorf("it selects %q, want %q, which has ended since", got, late)
		}
		all, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Second}, since, true)
		if err != nil || len(all.IDs) != 1 || all.IDs[0]+":completed" != late {
			t.Errorf("%+v would go, %v", all, err)
		}
		since.Since = time.Now()
		if got := c.found(since); got != "" {
			t.Errorf("nothing has happened since, and it selects %q", got)
		}
		runs := c.found(windlass.Filter{Types: []string{"runs"}})
		c.must(errors.Join(c.client.Rerun(t.Context(), windlass.Rerun{Live: true}, strings.TrimSuffix(runs, ":running"))...))
		c.Advance(10 * time.Second) // when it was claimed is written down a moment later
		if got := c.found(since); got != runs {
			t.Errorf("it selects %q, want %q", got, runs)
		}
		if all, err = c.client.Prune(t.Context(), windlass.Retention{Age: time.Second}, since, true); err != nil || len(all.IDs) != 0 {
			t.Errorf("%+v would go, %v", all, err)
		}
		since.Since = since.Since.Add(-2 * time.Hour)
		if got, every := c.found(since), c.found(windlass.Filter{}); got != every {
			t.Errorf("it selects %q, want %q", got, every)
		}
	})
}

func TestTags_O05_AChangeOfThemAloneStopsNoHandler(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		end := make(chan struct{})
		claims := map[string]*windlass.Claim{}
		keep := func(do run) run {
			return func(ctx context.Context, claim *windlass.Claim) error {
				c.mu.Lock()
				claims[claim.ID()] = claim
				c.mu.Unlock()
				return do(ctx, claim)
			}
		}
		c.join("n", handlers(map[string]run{"listens": keep(g.listens), "plain": keep(func(ctx context.Context, _ *windlass.Claim) error {
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})}))
		for _, id := range []string{"plain", "listens"} {
			c.Submit(windlass.Submission{ID: id, Spec: tagged(id, "tenant", "t1"), Props: json.RawMessage(`1`)})
			c.WaitFor(time.Minute, id, windlass.StatusRunning)
			c.update(id, setTags("tenant", "t2", "n", "1"), windlass.EffectUpdated)
			c.Advance(5 * time.Second)
			c.update(id, setTags("n", "1", "tenant", "t2"), windlass.EffectUnchanged)
			if c.mu.Lock(); claims[id].Spec().Tags["tenant"] != "t2" {
				t.Errorf("%s: its claim has %v", id, claims[id].Spec().Tags)
			}
			c.mu.Unlock()
			if text := c.details(id); strings.Count(text, "updated: its tags were changed") != 1 {
				t.Errorf("its history does not say it once:\n%s", text)
			}
		}
		c.wantFound("listens:running plain:running", "tenant", "t2")
		c.wantFound("", "tenant", "t1")
		if n := len(c.Runs("plain")) + len(c.Runs("listens")); n != 2 || !slices.Equal(g.all(), []string{"1"}) {
			t.Errorf("%d runs, and what listens was given %q", n, g.all())
		}
		close(end)
		c.WaitFor(time.Minute, "plain", windlass.StatusCompleted)
		c.wantFound("listens:running plain:completed", "tenant", "t2")
		c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, "plain")[0]) // what it was changed to, and not what it began with
		c.WaitFor(time.Minute, "plain", windlass.StatusCompleted)
		c.wantFound("listens:running plain:completed", "tenant", "t2", "n", "1")
	})
}

func TestTags_O05_AnyOtherChangeBesideThemStopsTheHandler(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(g.restarts))
		c.Submit(windlass.Submission{ID: "a", Spec: tagged("x"), Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		for n, change := range []func(*windlass.Submission) error{
			setProps(`2`), func(s *windlass.Submission) error { s.Spec.Priority = 1; return nil },
		} {
			c.update("a", func(s *windlass.Submission) error {
				return errors.Join(setTags("n", fmt.Sprint(n))(s), change(s))
			}, windlass.EffectUpdated)
			c.WaitUntil(5*time.Second, "it runs again", func() bool { return c.startsOf("a") == n+2 })
		}
		if want := []string{"1", "2", "2"}; !slices.Equal(g.all(), want) {
			t.Errorf("its runs were given %q, want %q", g.all(), want)
		}
		c.wantFound("a:running", "n", "1")
	})
}

func TestTags_M22_AWatchFollowsTheirChanges(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.Submit(windlass.Submission{ID: "a", Spec: tagged("x", "tenant", "t1")}, windlass.Submission{ID: "b", Spec: tagged("x", "tenant", "t2")})
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for change, err := range c.client.WatchTasks(ctx, windlass.Filter{Tags: map[string]string{"tenant": "t1"}}) {
				if err != nil {
					t.Error(err)
				}
				c.mu.Lock()
				seen = append(seen, fmt.Sprint(change.Task.ID, " ", change.Task.Tags["n"], " ", change.Gone))
				c.mu.Unlock()
			}
		}()
		c.Advance(time.Second)
		c.update("a", setTags("tenant", "t1", "n", "1"), windlass.EffectUpdated)
		c.update("b", setTags("tenant", "t1", "n", "2"), windlass.EffectUpdated)
		c.Advance(time.Second)
		c.update("a", setTags("tenant", "t2"), windlass.EffectUpdated)
		c.Advance(time.Second)
		cancel()
		<-done
		if want := []string{"a  false", "a 1 false", "b 2 false", "a  true"}; !slices.Equal(seen, want) {
			t.Errorf("it saw %q, want %q", seen, want)
		}
	})
}

func TestTags_O05_AChangeThatCannotBeReadIsNoneOfThem(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(untilStopped))
		c.Submit(windlass.Submission{ID: "a"})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		c.put("/test/tasks/a", `{"tags":`)
		c.WaitUntil(5*time.Second, "its handler is stopped", func() bool { return len(c.causesOf("a")) == 1 })
		if causes := c.causesOf("a"); !errors.Is(causes[0], windlass.ErrUpdated) {
			t.Errorf("it was stopped for %v", causes)
		}
		c.wantStatus("a", windlass.StatusFault)
	})
}
