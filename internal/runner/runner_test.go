package runner

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, f func(context.Context) error) error {
	t.Helper()
	var g Group
	var got error
	r := g.Go(t.Context(), f, func(err error) { got = err })
	g.Wait()
	select {
	case <-r.Done():
	default:
		t.Fatal("Wait returned before Done")
	}
	return got
}

func TestRun_ReturnsWhatTheFunctionReturns(t *testing.T) {
	want := errors.New("x")
	if got := run(t, func(context.Context) error { return want }); !errors.Is(got, want) {
		t.Errorf("got %v", got)
	}
	if got := run(t, func(context.Context) error { return nil }); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestRun_M31_APanicIsAnErrorWithItsStack(t *testing.T) {
	var p *PanicError
	got := run(t, func(context.Context) error { panic("boom") })
	if !errors.As(got, &p) || p.Value != "boom" || !strings.Contains(got.Error(), "runner_test.go") {
		t.Errorf("got %v", got)
	}
}

// third is called by second, and panics in the runtime.
func third(at []int) int { return at[len(at)] }

func second(at []int) int {
	defer func() {
		if v := recover(); v != nil {
			panic(v) // with another stack on top of the first
		}
	}()
	return third(at)
}

func TestRun_M31_TheStackHasALineForEachCallOfTheApplication(t *testing.T) {
	got := run(t, func(context.Context) error { second(nil); return nil })
	var calls []string
	for _, line := range strings.Split(got.Error(), "\n")[1:] {
		name, at, ok := strings.Cut(strings.TrimPrefix(line, "  github.com/windlass-go/windlass/internal/runner."), " (")
		if !ok || !regexp.MustCompile(`runner_test\.go:\d+\)$`).MatchString(at) {
			t.Errorf("a line is %q", line)
		}
		calls = append(calls, name)
	}
	want := []string{"second.func1", "third", "second", "TestRun_M31_TheStackHasALineForEachCallOfTheApplication.func1"}
	if !slices.Equal(calls, want) || !strings.HasPrefix(got.Error(), "panic: runtime error: index out of range [0] with length 0") {
		t.Errorf("%v\n%q, want %q", got, calls, want)
	}
}

func TestRun_GoexitIsAnError(t *testing.T) {
	got := run(t, func(context.Context) error { runtime.Goexit(); return nil })
	if !errors.Is(got, ErrExited) {
		t.Errorf("got %v", got)
	}
}

func TestStop_TheFirstCauseReachesTheFunction(t *testing.T) {
	var g Group
	first := errors.New("first")
	var cause error
	r := g.Go(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil
	}, func(error) {})
	r.Stop(first)
	r.Stop(errors.New("second"))
	g.Wait()
	if !errors.Is(cause, first) {
		t.Errorf("cause %v", cause)
	}
}
