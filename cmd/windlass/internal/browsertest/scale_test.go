//go:build e2e && linux

package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker/memory"
)

// Many tasks, and how often some of them change.
const (
	manyTasks     = 10_000
	changesASpell = 10
	spell         = 100 * time.Millisecond
)

// many serves a dashboard with many tasks to local users.
func many(t *testing.T) (*windlass.Client, string) {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := windlass.NewClient(store.Broker(), "/many")
	must(t, err)
	var batch []windlass.Submission
	for i := range manyTasks {
		batch = append(batch, windlass.Submission{ID: fmt.Sprintf("device-%05d", i), Spec: windlass.Spec{Type: fmt.Sprintf("poll-%d", i%7)}})
		if len(batch) == windlass.SubmitBatchMax || i == manyTasks-1 {
			for _, err := range client.SubmitAll(t.Context(), batch) {
				must(t, err)
			}
			batch = nil
		}
	}
	server, err := api.New(api.Config{Broker: store.Broker(), Namespace: "/many", Dashboard: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, listener, nil); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	return client, "http://" + listener.Addr().String() + "/"
}

// change submits and deletes tasks alternately until ctx is done, a hundred changes a second.
func change(ctx context.Context, t *testing.T, client *windlass.Client) {
	ticker := time.NewTicker(spell)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i := range changesASpell / 2 {
			at := n*changesASpell/2 + i
			err := client.Submit(ctx, windlass.Submission{ID: fmt.Sprintf("fresh-%06d", at), Spec: windlass.Spec{Type: "fresh"}})
			if err == nil {
				err = client.Delete(ctx, fmt.Sprintf("device-%05d", at%manyTasks))
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}
}

// measured is the result of the script that scrolls the list.
type measured struct {
	// Frames is the number drawn; P50, P95 and Worst are the times between two, in
	// milliseconds.
	Frames          int
	P50, P95, Worst float64
	// LongTasks counts tasks above 50 ms, which took LongFor of Took milliseconds.
	LongTasks      int
	LongFor, Took  float64
	RowsMax, Nodes int
	Bottom         bool
	FirstSeen      int
}

// scrolling goes through the whole list and back, and watches.
const scrolling = `(async () => {
	const grid = document.querySelector(".grid");
	const longs = [];
	const observer = new PerformanceObserver((l) => longs.push(...l.getEntries().map((e) => e.duration)));
	observer.observe({ entryTypes: ["longtask"] });
	const gaps = [], seen = new Set();
	let rowsMax = 0, bottom = false;
	const began = performance.now();
	let last = began;
	const steps = 240;
	for (let i = 0; i <= steps; i++) {
		const there = i <= steps / 2 ? i / (steps / 2) : 2 - i / (steps / 2);
		grid.scrollTop = there * (grid.scrollHeight - grid.clientHeight);
		await new Promise(requestAnimationFrame);
		const now = performance.now();
		gaps.push(now - last);
		last = now;
		const rows = grid.querySelectorAll(".gridbody .row");
		rowsMax = Math.max(rowsMax, rows.length);
		if (rows[0]) seen.add(rows[0].dataset.id);
		bottom ||= grid.scrollTop + grid.clientHeight >= grid.scrollHeight - 2;
	}
	await new Promise((done) => setTimeout(done));
	observer.disconnect();
	gaps.sort((a, b) => a - b);
	return { Frames: gaps.length, P50: gaps[gaps.length >> 1], P95: gaps[Math.floor(gaps.length * 0.95)], Worst: gaps.at(-1),
		LongTasks: longs.length, LongFor: longs.reduce((a, b) => a + b, 0), Took: last - began,
		RowsMax: rowsMax, Nodes: document.querySelectorAll("*").length, Bottom: bottom, FirstSeen: seen.size };
})()`

// scrolls scrolls through the list, logs the measurements and checks the size of the page. The
// times are only logged: on a busy machine frames are late whatever the page does. The
// processor time of the page's thread says more.
func (b *browser) scrolls(t *testing.T, how string) measured {
	t.Helper()
	before := b.busy()
	m := value[measured](b, scrolling)
	spent := b.busy() - before
	t.Logf("scrolling %s: %d frames; between two of them %.0f ms mostly, %.0f ms in 95 of 100, %.0f ms at worst; %d long tasks took %.0f of %.0f ms; "+
		"%.1f ms of processor time for each frame; %d rows and %d elements in the page at most",
		how, m.Frames, m.P50, m.P95, m.Worst, m.LongTasks, m.LongFor, m.Took, 1000*spent/float64(m.Frames), m.RowsMax, m.Nodes)
	if m.RowsMax > rowsMax || m.Nodes > elementsMax {
		t.Errorf("%d rows and %d elements are in the page; at most %d and %d should be", m.RowsMax, m.Nodes, rowsMax, elementsMax)
	}
	return m
}

// busy returns the processor time of the page's own thread, in seconds.
func (b *browser) busy() float64 {
	b.Helper()
	metrics, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) (performance.GetMetricsResult, error) {
		return cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
	})
	must(b.T, err)
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	b.Fatal("the browser does not say how busy it is")
	return 0
}

// Limits of the page, however long the list is.
const (
	rowsMax     = 70
	elementsMax = 2500
)

func TestDashboard_StaysResponsiveWithTenThousandTasksAndAHundredChangesASecond(t *testing.T) {
	needsChromium(t)
	client, address := many(t)
	b := open(t, address)
	b.do(command(performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}))
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelector(".grid")?.getAttribute("aria-rowcount") === "10001"`, "all of the tasks")
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	changing.Go(func() { change(ctx, t, client) })
	defer changing.Wait()
	defer cancel()
	b.visit("#/tasks?type=fresh", "Tasks")
	b.sees(`Number(document.querySelector(".grid")?.getAttribute("aria-rowcount")) > 20`, "that changes arrive")
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelectorAll(".gridbody .row").length > 10`, "the rows")

	m := b.scrolls(t, "in the order of IDs")
	t.Logf("measured: %d different rows came first in %d frames", m.FirstSeen, m.Frames)
	if !m.Bottom || m.FirstSeen < 2 {
		t.Errorf("the list does not follow: %d different rows came first in %d frames", m.FirstSeen, m.Frames)
	}

	b.press("/", "device-0999")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 10`, "what the filter lets through")
	b.press("9")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 1`, "the one that is left")
	b.visit("#/tasks?sort=-type", "Tasks")
	b.sees(`document.querySelector(".gridbody .row .c-type")?.textContent === "poll-6"`, "another order")
	b.scrolls(t, "in another order")
	b.sees(fmt.Sprintf(`Number(document.querySelector(".grid").getAttribute("aria-rowcount")) === %d`, manyTasks+1), "as many come as go")
}
