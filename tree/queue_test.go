package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/operate"
)

func TestTree_Z01_InitIsIdempotentAndClearTakesJobsOnly(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		for range 2 {
			c.must(c.Init(ctx))
		}
		if v, err := operate.New(c.client).Layout(ctx); err != nil || v != windlass.LayoutVersion {
			t.Errorf("the layout is %d, %v", v, err)
		}
		c.queue(Request{Name: "a", Type: "t"}, Request{Name: "bad", Type: "t"})
		c.queue(Request{Name: "b", Type: "t", Parent: "a_t"}, Request{Name: "c", Type: "t", Parent: "bad_t"})
		c.must(c.client.Submit(ctx, windlass.Submission{ID: "no-job"}))
		if err := c.Init(ctx); err != nil || len(c.statuses()) != 4 {
			t.Errorf("after another init there are %d jobs, %v", len(c.statuses()), err)
		}
		c.join("n1", broken("bad"))
		c.settle()
		if paths, err := c.Clear(ctx, true); err != nil || len(paths) != 4 || len(c.statuses()) != 4 {
			t.Errorf("a dry run: %v, %v", paths, err)
		}
		if paths, err := c.Clear(ctx, false); err != nil || len(paths) != 4 {
			t.Errorf("clear: %v, %v", paths, err)
		}
		if d, err := c.client.Task(ctx, "no-job"); err != nil || d.Status != windlass.StatusCompleted {
			t.Errorf("what is no job: %v, %v", d.Status, err)
		}
		kvs, _, err := broker.Collect(ctx, c.broker, c.space.All())
		c.must(err)
		for _, kv := range kvs {
			if strings.Contains(kv.Key, "_t") {
				t.Errorf("%s is left", kv.Key)
			}
		}
		if q := c.queue(Request{Name: "a", Type: "t"}); q[0].Effect != windlass.EffectCreated {
			t.Errorf("queueing afterwards: %v", q)
		}
	})
}

func TestTree_Z03_Z04_AJobWithoutAParentIsCreatedOrUpdated(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		q := c.queue(Request{Name: "alpha", Type: "requestFile", Data: raw(1)})
		if want := (Queued{Path: "alpha_requestFile", ID: "alpha_requestFile", Effect: windlass.EffectCreated, Needs: []string{}}); !reflect.DeepEqual(q[0], want) {
			t.Errorf("queued %+v, want %+v", q[0], want)
		}
		q = c.queue(Request{Name: "alpha", Type: "requestFile", Data: raw(2), Spec: windlass.Spec{Priority: 7}})
		if q[0].Effect != windlass.EffectUpdated {
			t.Errorf("the second time: %+v", q[0])
		}
		j, err := c.Get(t.Context(), "alpha_requestFile")
		if err != nil || string(j.Data) != "2" || j.Priority != 7 || j.Status != windlass.StatusPending {
			t.Errorf("it is %+v, %v", j, err)
		}
		if _, err := c.Get(t.Context(), "beta_requestFile"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		q = c.queue(Request{Name: "b", Type: "t", Parent: "alpha_requestFile"})
		if _, err := c.broker.Get(t.Context(), "/test/tasks/alpha_requestFile|b_t"); err != nil || q[0].ID != "alpha_requestFile|b_t" {
			t.Errorf("the pending name: %v, %+v", err, q)
		}
	})
}

func TestTree_Z05_OneChildIsQueuedUnderEveryJobThatMatches(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.queue(Request{Name: "alpha", Type: "file"}, Request{Name: "alphabet", Type: "file"}, Request{Name: "beta", Type: "table"})
		c.queue(Request{Name: "alpha", Type: "file", Parent: "beta_table"})
		got := queuedPaths(c.queue(Request{Name: "hash", Type: "sum", Under: &Pattern{Name: "alpha", Type: "f.*"}}))
		if diff := cmp.Diff([]Path{"alpha_file/hash_sum", "beta_table/alpha_file/hash_sum"}, got); diff != "" {
			t.Errorf("under a plain name, at any depth (-want +got)\n%s", diff)
		}
		got = queuedPaths(c.queue(Request{
			Name: "again", Type: "sum", Under: &Pattern{Type: "sum"},
			NameOf: func(parent, child string) string { return parent + "." + child },
		}))
		if diff := cmp.Diff([]Path{"alpha_file/hash_sum/hash.again_sum", "beta_table/alpha_file/hash_sum/hash.again_sum"}, got); diff != "" {
			t.Errorf("never under the children that it makes (-want +got)\n%s", diff)
		}
		queued, err := c.Queue(ctx, Request{Name: "x", Type: "t", Under: &Pattern{Name: "gamma"}}, Request{Name: "y", Type: "t"})
		if !errors.Is(err, ErrNoMatch) || !slices.Equal(queuedPaths(queued), []Path{"y_t"}) {
			t.Errorf("without a match: %v, %v", queued, err)
		}
		if _, err := c.Queue(ctx, Request{Name: "x", Type: "t", Parent: "gamma_t"}); !errors.Is(err, ErrNoMatch) {
			t.Errorf("under what is not there: %v", err)
		}
	})
}

func TestTree_BadInput_IsRefusedWithNothingDone(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		for field, r := range map[string]Request{
			"job name":      {Name: "a b", Type: "t"},
			"job type":      {Name: "a", Type: "t_u"},
			"parent name":   {Name: "a", Type: "t", Under: &Pattern{Name: "("}},
			"parent type":   {Name: "a", Type: "t", Under: &Pattern{Type: "["}},
			"parent":        {Name: "a", Type: "t", Parent: "b_t", Under: &Pattern{}},
			"parent path":   {Name: "a", Type: "t", Parent: "b"},
			"name function": {Name: "a", Type: "t", NameOf: func(string, string) string { return "x" }},
			"type":          {Name: "a", Type: "t", Spec: windlass.Spec{Type: "u"}},
			"props":         {Name: "a", Type: "t", Data: json.RawMessage("{")},
			"needs":         {Name: "a", Type: "t", Spec: windlass.Spec{Needs: []string{"x/y"}}},
			"on_failure":    {Name: "a", Type: "t", Spec: windlass.Spec{OnFailure: "explode"}},
			"priority":      {Name: "a", Type: "t", Spec: windlass.Spec{Priority: 5000}},
		} {
			_, err := c.Queue(t.Context(), Request{Name: "good", Type: "t"}, r)
			var bad *windlass.BadInputError
			if !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		c.queue(Request{Name: "p", Type: "t"})
		_, err := c.Queue(t.Context(), Request{Name: "a", Type: "t", Under: &Pattern{}, NameOf: func(string, string) string { return "a/b" }})
		if err == nil || !strings.Contains(err.Error(), "a/b") {
			t.Errorf("a name function that makes no name: %v", err)
		}
		if n := len(c.statuses()); n != 1 {
			t.Errorf("%d jobs were queued by refused calls", n-1)
		}
	})
}

func TestTree_Z09_PendingWorkingCompletedAndTheTreeAreListedEachItsOwn(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.queue(Request{Name: "done", Type: "t"}, Request{Name: "works", Type: "t"}, Request{Name: "bad", Type: "t"})
		c.queue(Request{Name: "waits", Type: "t", Under: &Pattern{Name: "works|bad"}})
		c.must(c.client.Submit(ctx, windlass.Submission{ID: "looks_like", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}}))
		c.join("n1", func(ctx context.Context, claim *windlass.Claim) error {
			if claim.ID() == "works_t" {
				<-ctx.Done()
				return ctx.Err()
			}
			return broken("bad")(ctx, claim)
		})
		c.sleep(5 * time.Second)
		for _, row := range []struct {
			list func(context.Context) ([]JobInfo, error)
			want string
		}{
			{c.Pending, "bad_t/waits_t works_t/waits_t"}, {c.Working, "works_t"}, {c.Completed, "done_t"},
			{func(ctx context.Context) ([]JobInfo, error) { return c.Find(ctx, Pattern{Name: "waits"}) }, "bad_t/waits_t works_t/waits_t"},
		} {
			jobs, err := row.list(ctx)
			c.must(err)
			if got := paths(jobs); got != row.want {
				t.Errorf("listed %q, want %q", got, row.want)
			}
		}
		f, err := c.Load(ctx)
		if err != nil || f.Len() != 5 {
			t.Fatalf("%d jobs in the tree, %v; what only looks like one is none", f.Len(), err)
		}
		j, _ := f.Get("bad_t/waits_t")
		if p := f.Progress(time.Now()); p.BlockedForGood != 1 || !strings.Contains(j.Reason, "bad_t") {
			t.Errorf("blocked for good: %d, %q", p.BlockedForGood, j.Reason)
		}
	})
}

func TestTree_Z10_CascadeQueuesWhatHasEndedBelowAgain(t *testing.T) {
	for _, cascade := range []bool{false, true} {
		t.Run(fmt.Sprint(cascade), func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				c.queue(Request{Name: "a", Type: "t", Data: raw("a")})
				c.queue(Request{Name: "b", Type: "t", Parent: "a_t", Data: raw("b"), Spec: windlass.Spec{Priority: 2}})
				c.queue(Request{Name: "c", Type: "t", Parent: "a_t/b_t"}, Request{Name: "aside", Type: "t"})
				c.join("n1", func(_ context.Context, claim *windlass.Claim) error {
					if claim.ID() == "a_t|b_t" && (string(claim.Props()) != `"b"` || claim.Spec().Priority != 2) {
						t.Errorf("it was queued again as %s and %+v", claim.Props(), claim.Spec())
					}
					return nil
				})
				c.settle()
				q := c.queue(Request{Name: "a", Type: "t", Cascade: cascade})
				c.settle()
				want := []string{"a_t"}
				if cascade {
					want = []string{"a_t", "a_t|b_t", "a_t|b_t|c_t"}
				}
				if q[0].Effect != windlass.EffectRerun || len(q) != len(want) {
					t.Errorf("queued %v", q)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if got := c.runs[4:]; !slices.Equal(got, want) {
					t.Errorf("queued again ran %q, want %q", got, want)
				}
			})
		})
	}
}

func TestTree_Z10_AWorkingJobIsRefusedUnlessItIsToRunAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		proceed := make(chan struct{})
		c.queue(Request{Name: "a", Type: "t"})
		c.join("n1", func(context.Context, *windlass.Claim) error { <-proceed; return nil })
		c.sleep(time.Second)
		if _, err := c.Queue(t.Context(), Request{Name: "a", Type: "t"}); !errors.Is(err, windlass.ErrWorking) {
			t.Errorf("queue what is worked on: %v", err)
		}
		if q := c.queue(Request{Name: "a", Type: "t", Requeue: true}); q[0].Effect != windlass.EffectRequeued {
			t.Errorf("with requeue: %v", q)
		}
		proceed <- struct{}{}
		proceed <- struct{}{}
		if got := c.settle(); got["a_t"] != windlass.StatusCompleted || len(c.runs) != 2 {
			t.Errorf("it is %v after %d runs", got, len(c.runs))
		}
	})
}

func TestTree_Z06_TenThousandChildrenRunAfterTheirParentAndNoMoreAreTaken(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.queue(Request{Name: "p", Type: "t"})
		requests := make([]Request, ChildrenMax)
		for i := range requests {
			requests[i] = Request{Name: fmt.Sprint(i), Type: "c", Parent: "p_t"}
		}
		c.queue(requests...)
		c.queue(requests[:10]...) // which are there already
		var bad *windlass.BadInputError
		_, err := c.Queue(ctx, Request{Name: "more", Type: "c", Parent: "p_t"})
		if !errors.As(err, &bad) || !strings.Contains(bad.Limit, "10000") {
			t.Errorf("one more: %v", err)
		}
		if _, err := c.other(c.connect()).Queue(ctx, Request{Name: "more", Type: "c", Under: &Pattern{Type: "t"}}); !errors.As(err, &bad) {
			t.Errorf("one more, by another client: %v", err)
		}
		c.join("n1", nil)
		c.join("n2", nil)
		done := 0
		for _, s := range c.settle() {
			if s == windlass.StatusCompleted {
				done++
			}
		}
		if c.runs[0] != "p_t" || done != ChildrenMax+1 || len(c.runs) != ChildrenMax+1 {
			t.Errorf("%d of %d are done after %d runs, the first of %s", done, ChildrenMax+1, len(c.runs), c.runs[0])
		}
	})
}

func TestTree_Results_ChildrenReadWhatTheirAncestorsAndNeedsLeft(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.queue(Request{Name: "list", Type: "t"}, Request{Name: "other", Type: "t"})
		c.queue(Request{Name: "sum", Type: "t", Parent: "list_t", Spec: windlass.Spec{Needs: []string{"other_t"}}})
		large := strings.Repeat("x", windlass.ResultBytesMax-2)
		c.join("n1", func(ctx context.Context, claim *windlass.Claim) error {
			switch claim.ID() {
			case "list_t":
				return claim.SetResult(large)
			case "other_t":
				return claim.SetResult(2)
			}
			results, err := claim.Results(ctx)
			if err != nil {
				return err
			}
			if string(results["list_t"]) != `"`+large+`"` || string(results["other_t"]) != "2" {
				t.Errorf("the results are %d", len(results))
			}
			return claim.SetResult(len(results))
		})
		c.settle()
		results, err := c.client.Results(t.Context(), "list_t|sum_t", "nobody")
		var missing *windlass.NotFoundError
		if !errors.As(err, &missing) || !slices.Equal(missing.IDs, []string{"nobody"}) || len(results) != 1 || string(results["list_t|sum_t"]) != "2" {
			t.Errorf("its own result: %v, %v", results, err)
		}
	})
}

func TestTree_WatchYieldsWhatHasChanged(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		looks := 0
		for f, err := range c.Watch(t.Context(), time.Second) {
			c.must(err)
			looks++
			j, _ := f.Get("a_t")
			switch {
			case f.Len() == 0:
				c.queue(Request{Name: "a", Type: "t"})
				c.join("n1", nil)
			case j.Status == windlass.StatusCompleted:
				if looks > 6 {
					t.Errorf("%d looks for one job", looks)
				}
				return
			}
		}
	})
}

// racing calls f once, before the first Commit.
type racing struct {
	broker.Broker
	before func()
}

func (r *racing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	return r.Broker.Commit(ctx, txns...)
}

func TestClear_DoesNotTakeTheAncestorsOfAJobThatIsQueuedMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.queue(Request{Name: "a", Type: "t"})
		c.queue(Request{Name: "b", Type: "t", Parent: "a_t"})
		race := &racing{Broker: c.connect(), before: func() { c.queue(Request{Name: "b", Type: "t", Parent: "a_t", Data: []byte(`2`)}) }}
		cleared, err := c.other(race).Clear(ctx, false)
		c.must(err)
		pending, err := c.Pending(ctx)
		c.must(err)
		for _, j := range pending {
			if len(j.BlockedBy) == 0 && j.Parent != "" {
				t.Errorf("%s can start, Clear has removed %v and returned no error", j.Path, cleared)
			}
		}
	})
}

func TestQueue_TheLimitOfChildrenHoldsForTwoWhoQueueInTurn(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.queue(Request{Name: "a", Type: "t"})
		trees := []*Tree{c.Tree, c.other(c.connect()), c.other(c.connect())}
		for i, one := range trees { // each has counted
			_, err := one.Queue(ctx, Request{Name: fmt.Sprint("first", i), Type: "t", Parent: "a_t"})
			c.must(err)
		}
		for i, one := range trees {
			var requests []Request
			for k := range ChildrenMax - 10 {
				requests = append(requests, Request{Name: fmt.Sprint(i, "-", k), Type: "t", Parent: "a_t"})
			}
			_, _ = one.Queue(ctx, requests...)
		}
		records, _, err := trees[0].records(ctx)
		if err != nil || len(records) > ChildrenMax+100 {
			t.Errorf("%d jobs, %v", len(records), err)
		}
	})
}
