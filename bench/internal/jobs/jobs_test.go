package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/bench/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store whose jobs are completed as they are submitted.
type fake struct {
	fleet *fleet
	// twice has one job completed more than once.
	twice bool
	// settledAt is what it says of itself.
	settledAt time.Time
	enqueued  []int
}

func (f *fake) order() order { return order{} }

func (f *fake) enqueue(_ context.Context, first, n int) error {
	f.enqueued = append(f.enqueued, first)
	done := int64(first + n)
	if f.twice {
		done++
	}
	at := time.Now().UnixNano()
	for worker, share := range []int64{done / 2, done - done/2} {
		line, err := json.Marshal(said{Done: share, At: at + int64(worker), Ran: at - 1})
		if err != nil {
			return err
		}
		f.fleet.hear(worker, line)
	}
	return nil
}

func (f *fake) settled(context.Context) (time.Time, error) { return f.settledAt, nil }
func (f *fake) pids() []int                                { return nil }
func (f *fake) close() error                               { return nil }

func newFake() *fake {
	f := &fake{}
	f.fleet = &fleet{store: f, said: make([]said, 2), changed: make(chan struct{}, 1)}
	return f
}

func TestFleet_WorkEndsWithTheLastCompletion(t *testing.T) {
	f := newFake()
	for range 2 {
		if err := f.fleet.work(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if want := max(f.fleet.said[0].At, f.fleet.said[1].At); f.fleet.last.UnixNano() != want {
			t.Errorf("it was at %d, want %d", f.fleet.last.UnixNano(), want)
		}
	}
	if len(f.enqueued) != 2 || f.enqueued[1] != 7 {
		t.Errorf("the jobs begin at %v", f.enqueued)
	}
	f.settledAt = time.Now().Add(time.Hour)
	if err := f.fleet.work(t.Context(), 1); err != nil || !f.fleet.last.Equal(f.settledAt) {
		t.Errorf("the store knows of it at %v, not at %v (%v)", f.fleet.last, f.settledAt, err)
	}
}

func TestFleet_MoreCompletionsThanJobsAreAnError(t *testing.T) {
	f := newFake()
	f.twice = true
	if err := f.fleet.work(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "4 jobs were completed of 3") {
		t.Errorf("it says %v", err)
	}
}

func TestFleet_WaitingEndsWithTheContext(t *testing.T) {
	f := newFake()
	gone := errors.New("too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := f.fleet.wait(ctx, func() bool { return false }); !errors.Is(err, gone) {
		t.Errorf("it says %v", err)
	}
}

func TestFleet_IgnoresWhatIsNoLineOfAWorker(t *testing.T) {
	f := newFake()
	f.fleet.hear(0, []byte("a library says hello"))
	f.fleet.hear(0, []byte(`{"ready":true}`))
	if f.fleet.ready != 1 || f.fleet.done() != 0 {
		t.Errorf("%d are ready and %d jobs done", f.fleet.ready, f.fleet.done())
	}
}

func TestCounter_TellsOfTheLastJob(t *testing.T) {
	var out bytes.Buffer
	c := newCounter(&out)
	over := make(chan struct{})
	c.ready()
	c.runs()
	c.completes(2)
	c.completes(1)
	var teller sync.WaitGroup
	teller.Go(func() { c.tell(over) })
	for {
		c.mu.Lock()
		lines := bytes.Count(out.Bytes(), []byte("\n"))
		c.mu.Unlock()
		if lines == 2 {
			break
		}
	}
	close(over)
	teller.Wait()
	lines := json.NewDecoder(&out)
	var first, second said
	if err := errors.Join(lines.Decode(&first), lines.Decode(&second)); err != nil {
		t.Fatal(err)
	}
	if !first.Ready || second.Done != 3 || second.At < second.Ran || second.Ran == 0 {
		t.Errorf("it says %+v and %+v", first, second)
	}
}

func TestUsage_IsForEachJob(t *testing.T) {
	before := usage{store: time.Second, workers: 2 * time.Second, ok: true}
	after := usage{store: 2 * time.Second, workers: 2500 * time.Millisecond, ok: true}
	if store, workers, busy := after.since(before, 1000, 4*time.Second); store != 1000 || workers != 500 || busy != 25 {
		t.Errorf("%v µs, %v µs, %v %%", store, workers, busy)
	}
	if store, _, _ := after.since(usage{}, 1, time.Second); store != 0 {
		t.Error("it is known where the system does not tell")
	}
}

func TestAdd_LeavesOutWhatTheSystemDoesNotTell(t *testing.T) {
	w := &report.Workload{}
	result{rate: 100, ran: []float64{1, 3, 2}, done: []float64{2, 4, 3}}.add(w, "s", 3)
	if m := w.Find(RateRow(3), "s"); m == nil || m.Median != 100 {
		t.Errorf("the rate is %+v", m)
	}
	if len(w.Measures) != 4 {
		t.Errorf("there are %d measures", len(w.Measures))
	}
	if RateRow(1) == RateRow(3) {
		t.Error("one worker and three have the same row")
	}
}

func TestRunWorker_RefusesWhatIsNoOrder(t *testing.T) {
	for _, bad := range []string{"", "{", `{"system":"cron"}`} {
		if err := RunWorker(t.Context(), strings.NewReader(""), &bytes.Buffer{}, bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
