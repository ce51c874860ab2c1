package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/keys"
)

func TestFanIn_Z12_ATaskRunsOnceAsManyAsItCanNeedHaveEnded(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var ended atomic.Int64
		early := int64(-1)
		runs := handlers(map[string]run{
			"part": func(context.Context, *windlass.Claim) error { ended.Add(1); return nil },
			"join": func(context.Context, *windlass.Claim) error { early = ended.Load(); return nil },
		})
		c.join("n1", runs)
		c.join("n2", runs)
		join := windlass.Submission{ID: "join", Spec: windlass.Spec{Type: "join"}}
		all := []windlass.Submission{}
		for i := range windlass.NeedsMax {
			part := windlass.Submission{ID: fmt.Sprint("part", i), Spec: windlass.Spec{Type: "part"}}
			all, join.Spec.Needs = append(all, part), append(join.Spec.Needs, part.ID)
		}
		c.Submit(append(all, join)...)
		c.WaitFor(10*time.Minute, "join", windlass.StatusCompleted)
		if early != windlass.NeedsMax {
			t.Errorf("it began after %d", early)
		}
	})
}

// The copy of the node that claims shows the need as gone. It is submitted again before the
// claim, which has no condition for it.
func TestFanIn_M11_ANeedThatIsThereAtTheClaimIsWaitedForHoweverManyThereAre(t *testing.T) {
	for _, last := range []string{"runs", "fails"} {
		t.Run(last, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				join := windlass.Submission{ID: "join", Spec: windlass.Spec{Type: "join"}}
				for i := range 200 {
					join.Spec.Needs = append(join.Spec.Needs, fmt.Sprint("part", i))
				}
				var again atomic.Bool
				var begun, wrong atomic.Int64
				c.join("n", handlers(map[string]run{
					"part": func(context.Context, *windlass.Claim) error {
						if last == "fails" {
							return windlass.Permanent(errors.New("it does not work"))
						}
						return nil
					},
					"join": func(ctx context.Context, _ *windlass.Claim) error {
						begun.Add(1)
						if s, err := c.client.Task(ctx, "part150"); err != nil || s.Status != windlass.StatusCompleted {
							wrong.Add(1)
						}
						return nil
					},
				}), intercept(func(m *interceptor) {
					m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
						if wanted[0].ID == "join" && !again.Swap(true) {
							c.must(c.client.Submit(ctx, windlass.Submission{ID: "part150", Spec: windlass.Spec{Type: "part", NotBefore: time.Now().Add(6 * time.Second)}}))
						}
						return m.Coordinator.Claim(ctx, wanted)
					}
				}))
				c.Submit(join)
				c.Advance(4 * time.Second)
				if c.wantStatus("join", windlass.StatusBlocked); begun.Load() != 0 {
					t.Error("it began while part150 was there")
				}
				if last == "fails" {
					c.WaitFor(2*time.Minute, "part150", windlass.StatusFailed)
					c.Advance(3 * time.Second)
					c.wantStatus("join", windlass.StatusBlocked)
					e, err := inspect.New(c.client).Explain(t.Context(), "join")
					if c.must(err); !strings.Contains(e.Why, "part150") {
						t.Error(e.Why)
					}
					return
				}
				c.WaitFor(2*time.Minute, "join", windlass.StatusCompleted)
				if begun.Load() != 1 || wrong.Load() != 0 {
					t.Errorf("it began %d times, %d of them too early", begun.Load(), wrong.Load())
				}
			})
		})
	}
}

// What a task is run again with is stored beside its errors.
func TestFanIn_TheLargestInputIsKeptWhenItsTaskFails(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := windlass.Submission{ID: "join", Spec: windlass.Spec{
			Type: "t", Retry: &windlass.Retry{Errors: 8, Min: windlass.Duration(time.Second), Max: windlass.Duration(time.Second)},
		}}
		for i := range windlass.NeedsMax {
			s.Spec.Needs = append(s.Spec.Needs, fmt.Sprintf("%038d", i))
		}
		room := windlass.InputBytesMax - windlass.NeedsMax*len(`"",`+s.Spec.Needs[0]) - len(`[]""`) + 1
		s.Props = json.RawMessage(`"` + strings.Repeat("p", room+1) + `"`)
		var wrong *windlass.BadInputError
		if err := c.client.Submit(t.Context(), s); !errors.As(err, &wrong) || wrong.Field != "needs" {
			t.Fatalf("one byte more than there is room for: %v", err)
		}
		s.Props = json.RawMessage(`"` + strings.Repeat("p", room) + `"`)
		c.join("n", handlers(map[string]run{"t": func(context.Context, *windlass.Claim) error {
			return errors.New(strings.Repeat("e", 5000))
		}}))
		c.Submit(s)
		c.WaitFor(time.Minute, "join", windlass.StatusFailed)
		c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, "join")[0])
		d, err := c.client.Task(t.Context(), "join")
		if err != nil || len(d.Spec.Needs) != windlass.NeedsMax || len(d.Props) != len(s.Props) {
			t.Errorf("it has %d needs and %d bytes of properties, %v", len(d.Spec.Needs), len(d.Props), err)
		}
	})
}

// follower keeps what a watch of all tasks has said of each, and how much that was.
type follower struct {
	mu      sync.Mutex
	last    map[string]windlass.TaskInfo
	reports map[string]int
	bytes   map[string]int
}

// followTasks follows until the test ends.
func followTasks(c *cluster) *follower {
	f := &follower{last: map[string]windlass.TaskInfo{}, reports: map[string]int{}, bytes: map[string]int{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for change := range c.client.WatchTasks(ctx, windlass.Filter{}) {
			encoded, _ := json.Marshal(change.Task)
			f.mu.Lock()
			f.last[change.Task.ID] = change.Task
			f.reports[change.Task.ID]++
			f.bytes[change.Task.ID] += len(encoded)
			f.mu.Unlock()
		}
	})
	c.t.Cleanup(func() { cancel(); following.Wait() })
	return f
}

// of returns what was said of a task last.
func (f *follower) of(id string) windlass.TaskInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[id]
}

// A watch says of a task with very many needs what a list does, but not for each that ends.
func TestFanIn_M22_AWatchSaysAsMuchOfOneThatWaitsForManyAsOfOneThatWaitsForFew(t *testing.T) {
	for name, needs := range map[string]func(i int) []string{
		"each":      func(i int) []string { return []string{"top_part", fmt.Sprintf("top_part|%04d_part", i)} },
		"the whole": func(int) []string { return []string{"top_part|*"} },
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				const parts = 400
				join, all := windlass.Submission{ID: "join"}, []windlass.Submission{}
				for i := range parts {
					all = append(all, windlass.Submission{ID: fmt.Sprintf("top_part|%04d_part", i), Spec: windlass.Spec{Type: "part", Job: true}})
					join.Spec.Needs = append(join.Spec.Needs, needs(i)...)
				}
				slices.Sort(join.Spec.Needs)
				join.Spec.Needs = slices.Compact(join.Spec.Needs)
				top := windlass.Submission{ID: "top_part", Spec: windlass.Spec{Type: "part", Job: true}}
				c.Submit(top)
				c.Submit(append(all, join)...)
				f, began := followTasks(c), time.Now()
				c.Advance(2 * time.Second)
				for i, s := range all {
					if i == parts/2 {
						c.Advance(2 * time.Second)
						listed, err := c.client.Tasks(t.Context(), windlass.Filter{IDPrefix: "join"})
						if c.must(err); len(listed) != 1 || listed[0].BlockedByCount != 1+parts/2 || !reflect.DeepEqual(listed[0], f.of("join")) {
							t.Errorf("a list says %+v, the watch %+v", listed, f.of("join"))
						}
					}
					c.remove(s.ID)
					c.Advance(20 * time.Millisecond)
				}
				c.remove(top.ID)
				c.Advance(10 * time.Millisecond)
				if last := f.of("join"); last.Status != windlass.StatusPending || len(last.BlockedBy) > 0 {
					t.Errorf("it waits for nothing, and is %+v", last)
				}
				c.Submit(top)
				c.Advance(10 * time.Millisecond)
				if last := f.of("join"); last.Status != windlass.StatusBlocked || last.BlockedByCount != 1 {
					t.Errorf("what it needs is there again, and it is %+v", last)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if most := 8 + int(time.Since(began).Seconds()); f.reports["join"] > most || f.bytes["join"] > 1000*most {
					t.Errorf("%d reports of %d bytes for %d needs", f.reports["join"], f.bytes["join"], parts)
				}
			})
		})
	}
}

// slowLists is a broker whose lists of a prefix take long.
type slowLists struct {
	broker.Broker
	prefix string
	takes  time.Duration
}

func (s slowLists) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		if prefix == s.prefix {
			time.Sleep(s.takes)
		}
		s.Broker.List(ctx, prefix)(yield)
	}
}

// What waits is not told of while the states of tasks are still being listed.
func TestFanIn_M22_AWatchTellsNothingBeforeItKnowsAll(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.Submit(windlass.Submission{ID: "a"}, windlass.Submission{ID: "b"}, windlass.Submission{ID: "join", Spec: windlass.Spec{Needs: []string{"a", "b"}}})
		space, err := keys.New("test")
		c.must(err)
		const takes = 5 * time.Second
		if c.client, err = windlass.NewClient(slowLists{c.store, space.States(), takes}, "test"); err != nil {
			t.Fatal(err)
		}
		f := followTasks(c)
		c.Advance(takes / 10)
		c.remove("a")
		c.Advance(takes / 2)
		if last := f.of("join"); last.ID != "" {
			t.Errorf("it tells of %+v", last)
		}
		c.Advance(takes)
		if last := f.of("join"); last.BlockedByCount != 1 {
			t.Errorf("it tells of %+v", last)
		}
	})
}
