//go:build e2e

package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
)

// Sizes of BenchmarkFanOut.
const (
	fanOutTasks   = 10_000
	fanOutViewers = 100
	fanOutRate    = 100 // changes a second
	fanOutTime    = 10 * time.Second
)

// fanOutEnv makes this program the server of BenchmarkFanOut.
const fanOutEnv = "WINDLASS_BENCH_FAN_OUT"

func init() {
	if os.Getenv(fanOutEnv) == "" {
		return
	}
	if err := runFanOut(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// BenchmarkFanOut measures the processor time of a server, in a process of its own,
// that passes a hundred changes a second of ten thousand tasks on, to nobody and to a
// hundred viewers.
func BenchmarkFanOut(b *testing.B) {
	for b.Loop() {
		idle, _ := fanOut(b, 0)
		busy, events := fanOut(b, fanOutViewers)
		b.ReportMetric(idle, "cores-alone")
		b.ReportMetric(busy, "cores-with-viewers")
		b.ReportMetric(events, "events/s/viewer")
	}
}

// fanOut runs the server with so many viewers, and returns the part of a core that it
// used, and how many events each viewer got a second.
func fanOut(b *testing.B, viewers int) (cores, events float64) {
	self, err := os.Executable()
	must(b, err)
	server := exec.Command(self)
	server.Env = append(os.Environ(), fanOutEnv+"=1")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	must(b, err)
	stdout, err := server.StdoutPipe()
	must(b, err)
	must(b, server.Start())
	said := bufio.NewReader(stdout)
	url, err := said.ReadString('\n')
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var viewing sync.WaitGroup
	var seen atomic.Int64
	for range viewers {
		request, err := http.NewRequestWithContext(ctx, "GET", strings.TrimSpace(url)+"/v1/events?kind=task", nil)
		must(b, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(response, err)
		}
		viewing.Go(func() {
			defer func() { _ = response.Body.Close() }()
			lines := bufio.NewScanner(response.Body)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "event: task") {
					seen.Add(1)
				}
			}
		})
	}
	_, err = io.WriteString(stdin, "go\n")
	must(b, err)
	_, err = fmt.Fscan(said, &cores)
	must(b, err)
	cancel()
	viewing.Wait()
	http.DefaultClient.CloseIdleConnections()
	must(b, server.Wait())
	return cores, float64(seen.Load()) / fanOutTime.Seconds() / float64(max(viewers, 1))
}

// runFanOut is the server of BenchmarkFanOut. It prints its address, waits for the word
// go, and says how much of a core it used from then on.
func runFanOut() error {
	store := memory.New()
	client, err := windlass.NewClient(store.Broker(), "/test")
	if err != nil {
		return err
	}
	var submissions []windlass.Submission
	for i := range fanOutTasks {
		submissions = append(submissions, windlass.Submission{ID: fmt.Sprintf("task-%05d", i), Spec: windlass.Spec{Type: "poll"}})
	}
	client.SubmitAll(context.Background(), submissions)
	server, err := New(Config{Broker: store.Broker(), Namespace: "/test", Logger: slog.New(slog.DiscardHandler), Limits: Limits{Rate: 1e6, RateBurst: 1e6}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = server.Run(ctx) }()
	listener := httptest.NewServer(server)
	for known := false; !known; { // until all tasks were published
		server.hub.mu.Lock()
		known = server.hub.last >= fanOutTasks
		server.hub.mu.Unlock()
		runtime.Gosched()
	}
	fmt.Println(listener.URL)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	before, began := processorTime(), time.Now()
	tick := time.NewTicker(time.Second / fanOutRate)
	for i := 0; time.Since(began) < fanOutTime; i++ {
		<-tick.C
		if err := client.Submit(ctx, windlass.Submission{ID: fmt.Sprintf("new-%05d", i), Spec: windlass.Spec{Type: "poll"}}); err != nil {
			return err
		}
	}
	fmt.Println((processorTime() - before).Seconds() / time.Since(began).Seconds())
	return nil
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
