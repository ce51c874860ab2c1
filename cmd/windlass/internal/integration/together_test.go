package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/depend"
)

// failsOnce is the ID of a task whose first run fails for good.
const failsOnce = "fails once"

// order records in which order runs begin and end.
type order struct {
	*cluster
	began, ended []string
	// early has the runs that began before all that they need had ended.
	early []string
	needs map[string][]string
}

func newOrder(c *cluster) *order { return &order{cluster: c, needs: map[string][]string{}} }

func (o *order) run(_ context.Context, claim *windlass.Claim) error {
	id := claim.ID()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, need := range o.needs[id] {
		if !slices.Contains(o.ended, need) {
			o.early = append(o.early, fmt.Sprintf("%s before %s", id, need))
		}
	}
	o.began, o.ended = append(o.began, id), append(o.ended, id)
	if id == failsOnce && !slices.Contains(o.ended[:len(o.ended)-1], id) {
		return windlass.Permanent(errors.New("broken"))
	}
	return nil
}

func (o *order) said() (began []string, early string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.began), strings.Join(o.early, ", ")
}

// task returns a submission, and keeps what it needs for the judgement.
func (o *order) task(id string, needs ...string) windlass.Submission {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needs[id] = depend.Blockers(id, needs)
	return windlass.Submission{ID: id, Spec: windlass.Spec{Needs: needs}}
}

// wantErrors compares errors with the texts that they begin with; "" is none.
func (c *cluster) wantErrors(errs []error, want ...string) {
	c.t.Helper()
	for i, err := range errs {
		if text := fmt.Sprint(err); err == nil && want[i] != "" || err != nil && (want[i] == "" || !strings.HasPrefix(text, want[i])) {
			c.t.Errorf("submission %d: %v, want %q", i, err, want[i])
		}
	}
}

// TestTogether_M11_…: whatever becomes of the requests of a call, its tasks run in the order
// of their needs.
func TestTogether_M11_NothingRunsBeforeWhatItNeeds(t *testing.T) {
	const needed = `"/test/tasks/c"`
	for name, c := range map[string]struct {
		plan  string
		fails bool
	}{
		"reordered":                  {"reorder 1s", false},
		"the need's request is lost": {"reorder 1s\nlose-request 1s on commit below " + needed + " call 1", false},
		"its answer is lost":         {"reorder 1s\nlose-reply 1s on commit below " + needed + " call 1", false},
		"it comes late":              {"reorder 1s\nlate 2s on commit below " + needed + " call 1", false},
		"it is refused":              {"refuse on commit below " + needed, true},
		"it is lost again and again": {"lose-request 1s on commit below " + needed, true},
	} {
		plan, fails := c.plan, c.fails
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				o := newOrder(c)
				c.join("n", running(o.run))
				for seed := range 6 {
					id := func(name string) string { return fmt.Sprintf("%s-%d", name, seed) }
					all := []windlass.Submission{o.task(id("a"), id("b")), o.task(id("b"), id("c")), o.task(id("c"))}
					rand.New(rand.NewPCG(uint64(seed), 1)).Shuffle(3, func(i, k int) { all[i], all[k] = all[k], all[i] })
					client := c.clientBehind(fmt.Sprintf("seed %d\n%s", seed, plan))
					errs := client.SubmitAll(t.Context(), all)
					if err := errors.Join(errs...); err != nil && !fails {
						t.Errorf("seed %d: %v", seed, err)
					} else if err != nil { // the caller repeats the call
						for i, err := range errs {
							if all[i].ID != id("c") && (!errors.Is(err, windlass.ErrUnmetNeed) || !errors.Is(err, broker.ErrUnavailable) || broker.MaybeApplied(err)) {
								t.Errorf("seed %d: %s: %v", seed, all[i].ID, err)
							}
						}
						c.Advance(time.Second)
						c.must(errors.Join(c.client.SubmitAll(t.Context(), all)...))
					}
					c.WaitFor(10*time.Second, id("a"), windlass.StatusCompleted)
				}
				if began, early := o.said(); early != "" || len(began) != 18 {
					t.Errorf("%s; the order is %v", early, began)
				}
			})
		})
	}
}

func TestTogether_M11_ARepeatedCallIsNoRefusal(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		o := newOrder(c)
		all := []windlass.Submission{o.task("b", "a"), o.task("a")}
		c.Submit(all[1])
		c.wantErrors(c.client.SubmitAll(t.Context(), all), "", `task "a" exists already`)
		c.join("n", running(o.run))
		c.WaitFor(10*time.Second, "b", windlass.StatusCompleted)
		all = append(all, o.task("c", "a", "b"))
		c.wantErrors(c.client.SubmitAll(t.Context(), all), `task "b" is completed already`, `task "a" is completed already`, "")
		c.WaitFor(10*time.Second, "c", windlass.StatusCompleted)
		if _, early := o.said(); early != "" {
			t.Error(early)
		}
	})
}

// TestTogether_M11_Z12_…: a plan says the same as the submission.
func TestTogether_M11_Z12_WhatNeedsARefusedTaskIsRefused(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		o := newOrder(c)
		c.Submit(windlass.Submission{ID: "live", Spec: windlass.Spec{Type: "nobody"}})
		job := func(id string) windlass.Submission {
			return windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t", Job: true}}
		}
		wrong := job("r_t")
		wrong.Spec.Priority = windlass.PriorityMax + 1
		unmet := func(id, need string) string {
			return fmt.Sprintf("submit task %q: its need is not met: %q was not submitted", id, need)
		}
		all := []windlass.Submission{
			o.task("p4", "p3", "fine"), o.task("p3", "p1"), o.task("p2", "p1"), o.task("p1", "p2"), o.task("fine"),
			job("r_t|below_t"), wrong, o.task("needs live", "live"), o.task("live"),
			job("none_t|below_t"), o.task("needs below", "none_t|below_t"),
		}
		want := []string{
			unmet("p4", "p3"), unmet("p3", "p1"), `needs "p2 → p1 → p2"`, `needs "p2 → p1 → p2"`, "",
			unmet("r_t|below_t", "r_t"), `priority "1001"`, unmet("needs live", "live"), `task "live" exists already, with another`,
			`job "none_t|below_t": the job above it is not in the tree`, unmet("needs below", "none_t|below_t"),
		}
		plan, errs, err := inspect.New(c.client).PlanSubmit(t.Context(), all)
		c.must(err)
		c.wantErrors(errs, want...)
		if want := map[windlass.Effect]int{windlass.EffectCreated: 1}; !maps.Equal(plan.Effects, want) {
			t.Errorf("the plan is %v", plan.Effects)
		}
		c.join("n", handlers(map[string]run{"": o.run, "t": o.run}))
		effects, errs := c.client.Enqueue(t.Context(), all)
		c.wantErrors(errs, want...)
		for i, effect := range effects {
			if (effect != "") != (errs[i] == nil) {
				t.Errorf("%s: %q", all[i].ID, effect)
			}
		}
		c.WaitFor(10*time.Second, "fine", windlass.StatusCompleted)
		c.Advance(10 * time.Second)
		if began, _ := o.said(); !slices.Equal(began, []string{"fine"}) {
			t.Errorf("%v ran", began)
		}
	})
}

// TestTogether_Z12_…: a second client closes a cycle between the checks of the first.
func TestTogether_Z12_WhatNeedsATaskThatIsTakenBackIsTakenBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		o := newOrder(c)
		c.join("n", running(o.run))
		client := c.clientOn(&crossing{Broker: c.Connect(), before: "/test/tasks/mine", do: func() {
			c.Submit(windlass.Submission{ID: "theirs", Spec: windlass.Spec{Needs: []string{"mine"}, NotBefore: time.Now().Add(5 * time.Second)}})
		}})
		errs := client.SubmitAll(t.Context(), []windlass.Submission{o.task("below", "mine"), o.task("lowest", "below"), o.task("mine", "theirs"), o.task("other")})
		c.wantErrors(errs, `submit task "below": its need is not met: "mine"`, `submit task "lowest": its need is not met: "below"`, `needs "mine → theirs → mine"`, "")
		c.WaitFor(10*time.Second, "theirs", windlass.StatusCompleted)
		c.Advance(10 * time.Second)
		began, _ := o.said()
		if slices.Sort(began); !slices.Equal(began, []string{"other", "theirs"}) {
			t.Errorf("%v ran", began)
		}
	})
}

// crossing is a broker that does something just before the first write of a key.
type crossing struct {
	broker.Broker
	before string
	do     func()
}

func (b *crossing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if b.do != nil && slices.ContainsFunc(txns, func(txn broker.Txn) bool {
		return slices.ContainsFunc(txn.Then, func(op broker.Op) bool { return op.Kind == broker.OpPut && op.Key == b.before })
	}) {
		b.do()
		b.do = nil
	}
	return b.Broker.Commit(ctx, txns...)
}

// TestTogether_M11_…: after one failure has skipped tasks in two layers, all of them run
// again, or it is said at once why they would not.
func TestTogether_M11_WhatWasSkippedIsRetriedInItsOrder(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		o := newOrder(c)
		root := o.task(failsOnce)
		root.Spec.OnFailure = windlass.FailureSkips
		all := []windlass.Submission{root}
		const width = 30
		for i := range width {
			above := o.task(fmt.Sprintf("z-%d", i), failsOnce)
			above.Spec.OnFailure = windlass.FailureSkips
			all = append(all, above, o.task(fmt.Sprintf("a-%d", i), above.ID))
		}
		c.must(errors.Join(c.client.SubmitAll(t.Context(), all)...))
		c.join("n", running(o.run))
		var ids []string
		for _, s := range all[1:] {
			c.WaitFor(time.Minute, s.ID, windlass.StatusKilled)
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		for i, err := range c.client.Rerun(t.Context(), windlass.Rerun{}, ids...) {
			if !errors.Is(err, windlass.ErrUnmetNeed) {
				t.Errorf("%s: %v", ids[i], err)
			}
		}
		client := c.clientBehind("seed 1\nreorder 100ms")
		c.must(errors.Join(client.Rerun(t.Context(), windlass.Rerun{}, append(ids, failsOnce)...)...))
		for _, id := range ids {
			c.WaitFor(time.Minute, id, windlass.StatusCompleted)
		}
		if began, early := o.said(); early != "" || len(began) != 2+len(ids) {
			t.Errorf("%d ran; %s", len(began), early)
		}
	})
}

// randomGraph makes tasks that need others, in a random order.
func (o *order) randomGraph(random *rand.Rand, name string, n int) []windlass.Submission {
	all := make([]windlass.Submission, n)
	for i := range all {
		id := fmt.Sprintf("%s-%d", name, i)
		var needs []string
		if i > 0 && random.IntN(5) == 0 {
			if above := all[random.IntN(i)].ID; strings.Count(above, "|") < 5 {
				id = above + "|" + id
			}
		}
		for range random.IntN(4) {
			if i > 0 {
				needs = append(needs, all[max(0, i-1-random.IntN(20))].ID)
			}
		}
		all[i] = o.task(id, needs...)
		all[i].Props, _ = json.Marshal(i) // a number can always be encoded
	}
	random.Shuffle(n, func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// TestTogether_M11_RandomGraphsRunInTheirOrder submits graphs while nodes run what is there,
// with requests reordered, lost and late.
func TestTogether_M11_RandomGraphsRunInTheirOrder(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		o := newOrder(f.cluster)
		for _, name := range []string{"n1", "n2", "n3"} {
			f.join(name, running(o.run))
		}
		random := rand.New(rand.NewPCG(71, 1))
		submitted := 0
		for graph := range 1000 {
			size := 3 + random.IntN(20)
			if graph%200 == 0 {
				size = 800
			}
			all := o.randomGraph(random, fmt.Sprint("g", graph), size)
			client := f.clientBehind(fmt.Sprintf("seed %d\nreorder 1ms\nlose-request 10ms on commit chance 0.1\n"+
				"lose-reply 10ms on commit chance 0.1\nlate 30ms on commit chance 0.1", graph))
			for attempt := 1; ; attempt++ {
				errs := slices.DeleteFunc(client.SubmitAll(t.Context(), all), func(err error) bool {
					return err == nil || windlass.AlreadySubmitted(err)
				})
				if len(errs) == 0 {
					break
				} else if attempt == 20 {
					t.Fatalf("graph %d: %v", graph, errs[0])
				}
			}
			submitted += size
			if graph%20 == 0 {
				f.Advance(time.Second)
			}
		}
		for range 60 {
			if began, _ := o.said(); len(began) == submitted {
				break
			}
			f.Advance(time.Second)
		}
		if began, early := o.said(); early != "" || len(began) != submitted {
			t.Errorf("%d of %d ran; early: %s", len(began), submitted, early)
		}
	})
}
