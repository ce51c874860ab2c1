package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is a source, and the way to it that needs no network, which does not go
// with virtual time.
type web struct {
	mu    sync.Mutex
	last  map[string]int64 // what is published
	until time.Time        // when it is not busy any more
	down  bool
	asked []string // the requests, as customer?after=cursor
}

func (w *web) feed() feed {
	return feed{
		published: func(customer string) int64 { return w.read(func() int64 { return w.last[customer] }) },
		busy:      func() time.Duration { return time.Duration(w.read(func() int64 { return int64(time.Until(w.until)) })) },
	}
}

func (w *web) read(f func() int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *web) publish(last int64, customers ...string) {
	for _, customer := range customers {
		w.set(func() { w.last[customer] = last })
	}
}

func (w *web) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.asked = append(w.asked, strings.TrimPrefix(r.URL.RequestURI(), "/feeds/"))
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, fmt.Errorf("no route to %s", r.URL.Host)
	}
	answer := httptest.NewRecorder()
	w.feed().handler().ServeHTTP(answer, r)
	return answer.Result(), r.Context().Err()
}

// requests are those for a customer since the last call.
func (w *web) requests(customer string) (asked []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.asked {
		if strings.HasPrefix(r, customer+"?") {
			asked = append(asked, r)
		}
	}
	w.asked = slices.DeleteFunc(w.asked, func(r string) bool { return strings.HasPrefix(r, customer+"?") })
	return asked
}

// fleet is two nodes that poll.
type fleet struct {
	*windlasstest.Cluster
	t   *testing.T
	web *web
	out output
}

func test(t *testing.T, body func(t *testing.T, f *fleet)) {
	dir := t.TempDir()
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		f := &fleet{Cluster: c, t: t, web: &web{last: map[string]int64{}}, out: output{dir: dir}}
		config := nodeConfig(&poller{client: &http.Client{Transport: f.web, Timeout: 10 * time.Second}, out: f.out})
		c.Start("a", config)
		c.Start("b", config)
		body(t, f)
	})
}

func (f *fleet) submit(customers ...string) {
	f.t.Helper()
	for _, customer := range customers {
		what := fmt.Sprintf(`{"url":"http://source/feeds/%s","every":"1s"}`, customer)
		f.Submit(windlass.Submission{ID: customer, Spec: windlass.Spec{Type: taskType}, Props: []byte(what)})
	}
	f.Settle(time.Minute)
}

// tell sends a message to a task, and waits until it was carried out.
func (f *fleet) tell(customer string, m statemachine.Command) {
	f.t.Helper()
	sent, err := f.Client().SendTask(f.t.Context(), customer, m)
	if err == nil {
		_, err = f.Client().AwaitCommand(f.t.Context(), sent)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// await waits until so many items are in the output, and checks them.
func (f *fleet) await(within time.Duration, customer string, n int) (took time.Duration) {
	f.t.Helper()
	took = f.WaitUntil(within, fmt.Sprintf("%d items of %s", n, customer), func() bool { return len(read(f.t, f.out, customer)) >= n })
	checkComplete(f.t, f.out, customer, n)
	return took
}

// read is the output as its readers see it.
func read(t *testing.T, out output, customer string) []line {
	t.Helper()
	file, err := os.Open(out.path(customer))
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, err := accepted(file)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// written counts how often each cursor is in the file itself.
func written(t *testing.T, out output, customer string) map[int64]int {
	t.Helper()
	text, err := os.ReadFile(out.path(customer))
	if err != nil {
		t.Fatal(err)
	}
	times := map[int64]int{}
	for part := range strings.SplitSeq(string(text), "\n") {
		var l line
		if json.Unmarshal([]byte(part), &l) == nil {
			times[l.Cursor]++
		}
	}
	return times
}

// checkComplete checks that every item is there, once and in order.
func checkComplete(t *testing.T, out output, customer string, n int) {
	t.Helper()
	lines := read(t, out, customer)
	if len(lines) != n {
		t.Errorf("%s: %d items in the output, want %d", customer, len(lines), n)
	}
	for i, l := range lines {
		if want := fmt.Sprintf("%s, number %d", customer, i+1); l.Cursor != int64(i+1) || l.Text != want {
			t.Fatalf("%s: item %d in the output is %+v, want %q", customer, i+1, l, want)
		}
	}
}

func TestPoller_PausesSleepsAndGoesOnAtTheSavedCursor(t *testing.T) {
	test(t, func(t *testing.T, f *fleet) {
		f.web.publish(25, "acme", "globex")
		f.submit("acme", "globex")
		f.await(time.Second, "acme", 25)

		f.tell("acme", statemachine.Command{Message: statemachine.Pause})
		f.web.publish(35, "acme", "globex")
		f.web.requests("acme")
		f.Advance(time.Minute)
		if asked := f.web.requests("acme"); len(asked) > 0 {
			t.Errorf("while it was paused it asked %q", asked)
		}
		f.await(time.Second, "globex", 35)
		f.tell("acme", statemachine.Command{Message: statemachine.Run})
		f.await(time.Second, "acme", 35)
		if asked := f.web.requests("acme"); asked[0] != "acme?after=25" {
			t.Errorf("after the pause it began with %q", asked[0])
		}

		f.tell("acme", statemachine.SleepUntil(time.Now().Add(10*time.Minute)))
		f.web.publish(45, "acme")
		f.web.requests("acme")
		f.Advance(10*time.Minute - time.Second)
		if asked := f.web.requests("acme"); len(asked) > 0 {
			t.Errorf("while it slept it asked %q", asked)
		}
		f.await(2*time.Second, "acme", 45)

		f.Advance(30 * time.Second) // nothing new: not worth a checkpoint
		f.tell("acme", statemachine.Command{Message: statemachine.Checkpoint})
		f.Advance(time.Second)
		at, err := f.Client().Progress(t.Context(), "acme")
		if want := time.Now().UTC().Format("15:04"); err != nil || !strings.HasPrefix(string(at), `{"cursor":45,`) || !strings.Contains(string(at), "T"+want) {
			t.Errorf("told to checkpoint at %s, it saved %s, %v", want, at, err)
		}

		f.tell("acme", statemachine.Command{Message: statemachine.Release})
		f.Settle(time.Minute)
		if runs := f.Runs("acme"); len(runs) != 4 || runs[3].Token <= runs[2].Token {
			t.Errorf("after the release: %v", runs)
		}
		f.tell("acme", statemachine.Command{Message: statemachine.Kill})
		f.WaitFor(time.Second, "acme", windlass.StatusKilled)
		f.web.requests("acme")
		if f.Advance(time.Minute); len(f.web.requests("acme")) > 0 {
			t.Error("it polls on after it was killed")
		}
	})
}

func TestPoller_ANodeThatDiesBetweenAPageAndItsCheckpointLosesAndDoublesNothing(t *testing.T) {
	test(t, func(t *testing.T, f *fleet) {
		f.web.publish(25, "acme")
		f.submit("acme")
		f.await(time.Second, "acme", 25)
		struck := f.Holder("acme")
		struck.Use("delay-request 1h on commit")
		f.web.publish(60, "acme")
		f.await(2*time.Second, "acme", 35) // a page is written, and not remembered
		struck.Kill()
		f.await(time.Minute, "acme", 60)
		for cursor, times := range written(t, f.out, "acme") {
			if doubled := cursor > 25 && cursor <= 35; doubled != (times == 2) {
				t.Errorf("cursor %d was written %d times", cursor, times)
			}
		}
		if runs := f.Runs("acme"); len(runs) != 2 || runs[0].Node == runs[1].Node {
			t.Errorf("the fault did not strike: %v", runs)
		}
	})
}

func TestPoller_AFeedThatIsGoneFailsItsTaskAndOneThatIsBusyOrDownDoesNot(t *testing.T) {
	test(t, func(t *testing.T, f *fleet) {
		f.web.publish(-1, "gone")
		f.submit("gone")
		d := f.WaitFor(time.Second, "gone", windlass.StatusFailed)
		if asked := f.web.requests("gone"); len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error, "410 Gone") || len(asked) != 1 {
			t.Errorf("it asked %q and failed with %+v", asked, d.Errors)
		}

		f.web.publish(5, "acme")
		f.submit("acme")
		f.await(time.Second, "acme", 5)
		f.web.publish(10, "acme")
		free := time.Now().Add(90 * time.Second)
		f.web.set(func() { f.web.until = free })
		if d := f.WaitFor(2*time.Second, "acme", windlass.StatusSleeping); d.Until.Before(free) || len(d.Errors) > 0 {
			t.Errorf("busy until %v, it sleeps until %v, with the errors %+v", free, d.Until, d.Errors)
		}
		f.await(2*time.Minute, "acme", 10)
		if asked := f.web.requests("acme"); len(asked) > 8 {
			t.Errorf("it asked %d times although it was told to wait", len(asked))
		}

		f.web.set(func() { f.web.down = true })
		f.web.publish(15, "acme")
		f.Advance(2 * time.Hour) // the default would have given up
		if asked := f.web.requests("acme"); len(asked) < 25 || len(asked) > 70 {
			t.Errorf("in two hours without a way to the source it asked %d times", len(asked))
		}
		f.web.set(func() { f.web.down = false })
		f.await(backOffMax, "acme", 15)
	})
}

func TestAccepted_RefusesOldTokensDoublesAndHalfLines(t *testing.T) {
	file := `
{"cursor":1,"text":"x","token":5}
{"cursor":2,"te
{"cursor":2,"text":"x","token":9}
{"cursor":3,"text":"too late","token":5}
{"cursor":2,"text":"again","token":9}
{"cursor":3,"text":"x","token":9}
{"cursor":4,"text":"x","tok`
	lines, err := accepted(strings.NewReader(file))
	if got := fmt.Sprint(lines); err != nil || got != "[{{1 x} 5} {{2 x} 9} {{3 x} 9}]" {
		t.Errorf("%s, %v", got, err)
	}
}
