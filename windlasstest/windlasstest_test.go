package windlasstest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ttl is the session TTL of every node, Windlass's default.
const ttl = 15 * time.Second

// config returns the configuration of a node that runs tasks of any type.
func config(run func(context.Context, *windlass.Claim) error) windlass.Config {
	return windlass.Config{Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(run)}}
}

// untilStopped is a handler that never ends by itself.
func untilStopped(ctx context.Context, _ *windlass.Claim) error {
	<-ctx.Done()
	return ctx.Err()
}

// stubborn is a handler that ignores its context for longer than any session lasts.
func stubborn(context.Context, *windlass.Claim) error {
	<-time.After(4 * ttl)
	return nil
}

// start starts nodes of one configuration, and one task, and waits until it runs.
func start(c *windlasstest.Cluster, config windlass.Config, names ...string) (holder *windlasstest.Node) {
	for _, name := range names {
		c.Start(name, config)
	}
	c.Submit(windlass.Submission{ID: "task"})
	c.Settle(time.Minute)
	return c.Holder("task")
}

// fakeT is a test that may fail without failing the real one.
type fakeT struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    strings.Builder
}

func (f *fakeT) add(failed bool, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = f.failed || failed
	f.log.WriteString(text + "\n")
}

func (f *fakeT) Helper()                        {}
func (f *fakeT) Logf(format string, a ...any)   { f.add(false, fmt.Sprintf(format, a...)) }
func (f *fakeT) Error(a ...any)                 { f.add(true, fmt.Sprintln(a...)) }
func (f *fakeT) Errorf(format string, a ...any) { f.add(true, fmt.Sprintf(format, a...)) }

func (f *fakeT) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Fatal and Fatalf end the goroutine of attempt.
func (f *fakeT) Fatal(a ...any) {
	f.add(true, fmt.Sprintln(a...))
	runtime.Goexit()
}

func (f *fakeT) Fatalf(format string, a ...any) {
	f.add(true, fmt.Sprintf(format, a...))
	runtime.Goexit()
}

// attempt runs a test that may fail, with a cluster, and returns what it logged
// if it did.
func attempt(t *testing.T, options windlasstest.Options, test func(c *windlasstest.Cluster)) (log string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeT{TB: t}
		var running sync.WaitGroup
		running.Go(func() {
			c := windlasstest.New(f, options)
			defer c.Close()
			test(c)
		})
		running.Wait()
		if f.Failed() {
			log = f.log.String()
		}
	})
	return log
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// contains checks that a failing test said certain things.
func contains(t *testing.T, log string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in:\n%s", want, log)
		}
	}
}
