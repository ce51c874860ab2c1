package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/lease"
)

// early returns the runs that began before a job that they wait for.
func (c *cluster) early(waits map[string][]string) (early []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range c.runs {
		for _, need := range waits[id] {
			if !slices.Contains(c.runs[:i], need) {
				early = append(early, id+" before "+need)
			}
		}
	}
	return early
}

// TestQueueInTurn_M11_…: a file of jobs in any order, whose requests arrive in any order.
func TestQueueInTurn_M11_JobsOfAFileRunInTheirOrder(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n1", nil)
		random := rand.New(rand.NewPCG(71, 2))
		jobs := 0
		for file := range 20 {
			waits := map[string][]string{}
			var requests []Request
			var paths []Path
			for i := range 40 {
				r := Request{Name: fmt.Sprintf("f%d-%d", file, i), Type: "t"}
				if i > 0 && random.IntN(3) == 0 {
					if above := paths[random.IntN(i)]; above.Depth() < 5 {
						r.Parent = above
					}
				}
				if i > 0 && random.IntN(2) == 0 {
					r.Spec.Needs = []string{string(paths[random.IntN(i)])}
				}
				path := r.Parent.Child(r.Name, r.Type)
				paths, requests = append(paths, path), append(requests, r)
				for _, need := range r.Spec.Needs {
					waits[path.ID()] = append(waits[path.ID()], Path(need).ID())
				}
				if r.Parent != "" {
					waits[path.ID()] = append(waits[path.ID()], r.Parent.ID())
				}
			}
			sum := Request{Name: fmt.Sprintf("sum%d", file), Type: "t"}
			for _, path := range paths {
				if path.Depth() == 1 {
					sum.Spec.Needs = append(sum.Spec.Needs, string(path)+"/*")
				}
				waits[sum.Name+"_t"] = append(waits[sum.Name+"_t"], path.ID())
			}
			requests = append(requests, sum)
			random.Shuffle(len(requests), func(i, k int) { requests[i], requests[k] = requests[k], requests[i] })
			unsound := c.other(faulty.Wrap(c.connect(), faulty.MustParse(fmt.Sprintf("seed %d\nreorder 5ms", file))))
			queued, failed, err := unsound.QueueInTurn(t.Context(), requests...)
			if err != nil || len(failed) > 0 || len(queued) != len(requests) {
				t.Fatalf("%d of %d, %v, %v", len(queued), len(requests), failed, err)
			}
			jobs += len(queued)
			c.settle()
			if early := c.early(waits); len(early) > 0 {
				t.Errorf("file %d: %v", file, early)
			}
		}
		if len(c.runs) != jobs {
			t.Errorf("%d of %d ran", len(c.runs), jobs)
		}
	})
}

func TestQueueInTurn_Z05_ARequestThatLooksFindsTheJobsBeforeIt(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		name := func(parent, child string) string { return parent + "-" + child }
		queued, failed, err := c.QueueInTurn(t.Context(),
			Request{Name: "b", Type: "u", Parent: "r_t"}, Request{Name: "r", Type: "t"},
			Request{Name: "check", Type: "c", Under: &Pattern{Type: "u"}, NameOf: name},
			Request{Name: "last", Type: "t", Spec: windlass.Spec{Needs: []string{"r_t/b_u/b-check_c"}}},
		)
		var paths []string
		for _, q := range queued {
			paths = append(paths, string(q.Path))
		}
		if want := "r_t/b_u r_t r_t/b_u/b-check_c last_t"; strings.Join(paths, " ") != want || err != nil || len(failed) > 0 {
			t.Errorf("queued %q, %v, %v", paths, failed, err)
		}
	})
}

func TestQueueInTurn_M11_WhatWaitsForARefusedJobIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.queue(Request{Name: "held", Type: "t"})
		if _, err := lease.New(c.client, nil).Dequeue(t.Context(), "t", "me", time.Minute); err != nil {
			t.Fatal(err)
		}
		queued, failed, err := c.QueueInTurn(t.Context(),
			Request{Name: "held", Type: "t"}, Request{Name: "below", Type: "u", Parent: "held_t"},
			Request{Name: "nowhere", Type: "u", Under: &Pattern{Name: "nobody"}},
			Request{Name: "after", Type: "u", Spec: windlass.Spec{Needs: []string{"held_t/below_u"}}},
			Request{Name: "deep", Type: "u", Parent: "after_u"}, Request{Name: "other", Type: "u"},
		)
		if err != nil || len(queued) != 1 || queued[0].Path != "other_u" {
			t.Errorf("queued %v, %v", queued, err)
		}
		for i, kind := range []error{windlass.ErrWorking, windlass.ErrUnmetNeed, ErrNoMatch, windlass.ErrUnmetNeed, windlass.ErrUnmetNeed} {
			if len(failed) != 5 || !errors.Is(failed[i], kind) {
				t.Fatalf("failure %d is no %v: %v", i, kind, failed)
			}
		}
	})
}

func TestQueueInTurn_RefusesAFileAsAWhole(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		needs := func(name string, needs ...string) Request {
			return Request{Name: name, Type: "t", Spec: windlass.Spec{Needs: needs}}
		}
		looks := Request{Name: "check", Type: "c", Under: &Pattern{Name: "x.*"}}
		named := looks
		named.NameOf = func(parent, child string) string { return parent + child }
		for text, requests := range map[string][]Request{
			"a_t → b_t → a_t":                      {needs("a", "b_t"), needs("b", "a_t"), needs("c")},
			"r_t → r_t|b_t → r_t":                  {needs("r", "r_t/b_t"), {Name: "b", Type: "t", Parent: "r_t"}},
			`needs "z_t": a_t waits for it`:        {needs("a", "z_t"), looks, needs("z")},
			`needs "r_t": r_t/b_t waits for it`:    {{Name: "b", Type: "t", Parent: "r_t"}, looks, needs("r")},
			`needs "x_t|check_c": a_t waits`:       {needs("a", "x_t/check_c"), needs("x"), looks},
			`needs "x_t|xcheck_c": a_t waits`:      {needs("a", "x_t/xcheck_c"), needs("x"), named},
			`needs "x_t|old_t": a_t waits`:         {needs("a", "x_t/old_t"), {Name: "x", Type: "t", Cascade: true}},
			`needs "x_t|*": a_t waits`:             {needs("a", "x_t/*"), needs("x"), looks},
			`needs "z_t": a_t waits`:               {needs("a", "z_t/*"), looks, needs("z"), {Name: "b", Type: "t", Parent: "z_t"}},
			"a_t → r_t|* → r_t|b_t → a_t":          {needs("a", "r_t/*"), needs("r"), {Name: "b", Type: "t", Parent: "r_t", Spec: windlass.Spec{Needs: []string{"a_t"}}}},
			`needs "x/*"`:                          {needs("a", "x/*")},
			`job name "b/c": must not contain '/'`: {needs("a"), needs("b/c")},
		} {
			queued, failed, err := c.QueueInTurn(t.Context(), requests...)
			var bad *windlass.BadInputError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), text) || len(queued)+len(failed) > 0 {
				t.Errorf("%s: queued %v, failed %v, %v", text, queued, failed, err)
			}
		}
		if n := len(c.statuses()); n > 0 {
			t.Errorf("%d jobs are there", n)
		}
	})
}

// TestQueueInTurn_WhatWasNotTriedIsAFailure: the caller's time is over before the first turn.
func TestQueueInTurn_WhatWasNotTriedIsAFailure(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		queued, failed, err := c.QueueInTurn(ctx,
			Request{Name: "a", Type: "t"}, Request{Name: "b", Type: "t"},
			Request{Name: "c", Type: "t", Under: &Pattern{Name: "a"}}, Request{Name: "d", Type: "t"},
		)
		if err != nil || len(queued) > 0 || len(failed) != 4 {
			t.Errorf("queued %v, failed %v, %v", queued, failed, err)
		}
	})
}

// Lines that match each other's jobs double them with each.
func TestQueueInTurn_MakesOnlySoManyJobs(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		c.Limit(100, 10)
		requests := []Request{{Name: "r", Type: "d"}}
		for i := range 9 {
			requests = append(requests, Request{Name: fmt.Sprint("x", i), Type: "d", Under: &Pattern{Type: "d"}})
		}
		queued, failed, err := c.QueueInTurn(t.Context(), requests...)
		if len(queued) != 64 || len(failed) != 3 || err != nil || !strings.Contains(fmt.Sprint(failed[0]), "must be at most 100 in one call") {
			t.Errorf("%d queued, %v, %v", len(queued), failed, err)
		}
		_, err = c.Queue(t.Context(), Request{Name: "y", Type: "d", Under: &Pattern{}}, Request{Name: "z", Type: "d", Under: &Pattern{}})
		if bad, is := errors.AsType[*windlass.BadInputError](err); !is || bad.Field != "jobs" {
			t.Errorf("%v", err)
		}
		requests = append(requests, requests[1:3]...)
		if _, _, err = c.QueueInTurn(t.Context(), requests...); !strings.Contains(fmt.Sprint(err), "11 with a pattern or cascade") {
			t.Errorf("%v", err)
		}
	})
}
