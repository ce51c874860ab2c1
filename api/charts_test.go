package api

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/clock"
)

func (b *bench) charts() (fine, coarse chart) {
	b.Helper()
	w := serve(b.server, request("GET", "/v1/charts", ""))
	var charts []chart
	if err := json.Unmarshal(w.Body.Bytes(), &charts); err != nil || len(charts) != 2 || w.Code != 200 {
		b.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return charts[0], charts[1]
}

// node runs a node until it is stopped.
func (b *bench) node(name string) (stop func()) {
	b.Helper()
	node, err := windlass.NewNode(windlass.Config{
		Broker: b.store.Broker(), Namespace: "/test", Name: name, Clock: clock.Process,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
			<-ctx.Done()
			return ctx.Err()
		})},
	})
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := node.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	b.Cleanup(stop)
	return stop
}

func TestCharts_HaveThePastForWhoComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run()
		synctest.Wait() // the server follows: a claim that it finds when it begins is none that it counts
		b.submit(windlass.Submission{ID: "x"}, windlass.Submission{ID: "y"})
		synctest.Wait()
		stopA := b.node("a")
		time.Sleep(3 * sampleEvery / 2)
		b.node("b")
		stopA()
		time.Sleep(10 * sampleEvery)
		fine, coarse := b.charts()
		if n := len(fine.At); n != 11 || fine.StepSeconds != 10 || fine.At[n-1]-fine.At[0] != 100 {
			t.Fatalf("%+v", fine)
		}
		last := len(fine.At) - 1
		if fine.Tasks[windlass.StatusRunning][last] != 2 || fine.Nodes[last] != 1 || fine.Claims[last] != 4 || fine.Moves[last] != 2 {
			t.Errorf("2 tasks that moved once are shown as %+v", fine)
		}
		if fine.Claims[0] != 2 || fine.Moves[0] != 0 || len(fine.Tasks) != len(windlass.Statuses) {
			t.Errorf("before they moved it was %+v", fine)
		}
		if len(coarse.At) != 1 || coarse.StepSeconds != 300 {
			t.Errorf("%+v", coarse)
		}

		away := broker.ErrUnavailable
		b.broker.failure.Store(&away)
		time.Sleep(time.Minute) // what is not known is not drawn
		b.broker.failure.Store(nil)
		time.Sleep(time.Minute)
		after, _ := b.charts()
		if n := len(after.At); n < 14 || n > 20 || !slices.ContainsFunc(gaps(after.At), func(gap int64) bool { return gap > 30 }) {
			t.Errorf("with a minute without the broker there are %d samples, %v", n, gaps(after.At))
		}
	})
}

func TestCharts_KeepAnHourAndADay(t *testing.T) {
	c := newCharts()
	begin := time.Unix(1e9, 0)
	for i := range coarseEvery*coarseSamples + fineSamples + 1 {
		c.take(map[windlass.Status]int{windlass.StatusRunning: i}, begin.Add(time.Duration(i)*sampleEvery))
	}
	for _, got := range c.all() {
		n := len(got.At)
		if covered := got.At[n-1] - got.At[0]; covered != int64(got.StepSeconds*(n-1)) || n*got.StepSeconds != map[int]int{10: 3600, 300: 24 * 3600}[got.StepSeconds] {
			t.Errorf("%d samples every %d s cover %d s", n, got.StepSeconds, covered)
		}
		if running := got.Tasks[windlass.StatusRunning]; begin.Add(time.Duration(running[n-1])*sampleEvery).Unix() != got.At[n-1] {
			t.Errorf("the last sample says %d at %d", running[n-1], got.At[n-1])
		}
	}
}

// gaps returns the seconds between neighbouring samples.
func gaps(at []int64) (gaps []int64) {
	for i := range at[1:] {
		gaps = append(gaps, at[i+1]-at[i])
	}
	return gaps
}
