package statemachine

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/internal/invalid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var allStates = []State{Runnable, Sleeping, Paused, Fault, Completed, Failed, Killed}

// contract repeats M51 as the contract states it, independently of the table in the
// code.
var contract = map[State]string{
	Runnable: "checkpoint=runnable release=runnable run=runnable sleep=sleeping complete=completed kill=killed error=fault pause=paused",
	Sleeping: "checkpoint=sleeping release=sleeping sleep=sleeping run=runnable kill=killed pause=paused error=fault",
	Paused:   "checkpoint=paused release=paused pause=paused run=runnable sleep=sleeping kill=killed",
	Fault:    "sleep=sleeping error=failed run=runnable kill=killed",
}

func TestNext_M51_AgreesWithTheContractForEveryPair(t *testing.T) {
	for _, s := range allStates {
		want := map[Message]State{}
		for _, pair := range strings.Fields(contract[s]) {
			m, next, _ := strings.Cut(pair, "=")
			want[Message(m)] = State(next)
		}
		for _, m := range Messages {
			got, err := Next(s, m)
			next, allowed := want[m]
			var refused *TransitionError
			switch {
			case allowed && (err != nil || got != next):
				t.Errorf("%s + %s = %s, %v; want %s", s, m, got, err, next)
			case !allowed && (!errors.As(err, &refused) || got != s):
				t.Errorf("%s + %s = %s, %v; want it refused", s, m, got, err)
			}
		}
	}
}

func TestParse_M54_AbsentMeansRunnableAndUnreadableIsAnError(t *testing.T) {
	if r, err := Parse(nil); err != nil || r.State != Runnable {
		t.Errorf("Parse(nil) = %+v, %v", r, err)
	}
	for _, bad := range []string{"{", `{"state":"dancing"}`, `{"state":""}`, `[]`, `{"state":"sleeping"}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%s) was accepted", bad)
		}
	}
	if _, err := Parse([]byte(`{"state":"paused","future":1}`)); err != nil {
		t.Errorf("an unknown field was refused: %v", err)
	}
}

func TestHandleErrors_M55_SleepsLongerEachTimeAndFailsAfterTheSetNumberOfErrors(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	policy := RetryPolicy{Errors: ErrorsMax}
	var errs []ErrorEntry
	var last time.Duration
	for i := 1; i < ErrorsMax; i++ {
		errs = AddError(errs, now, "x")
		d := policy.HandleErrors(errs, i, now, 0.5)
		if d.Message != Sleep || d.Until.Sub(now) <= last || d.Validate() != nil {
			t.Fatalf("after %d errors: %+v, the sleep before was %v", i, d, last)
		}
		last = d.Until.Sub(now)
	}
	errs = AddError(errs, now, "x")
	if d := policy.HandleErrors(errs, ErrorsMax, now, 0); d.Message != Error || d.Error != "x" {
		t.Errorf("after %d errors: %+v", len(errs), d)
	}
	if d := policy.HandleErrors(errs, ErrorsMax, now.Add(FaultWindow), 0); d.Message != Sleep {
		t.Errorf("errors older than the window count: %+v", d)
	}
}

// A task fails every second until the policy gives up.
func TestHandleErrors_CountsMoreErrorsThanAreKept(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		policy  RetryPolicy
		after   int
		counted int
	}{
		{RetryPolicy{}, 0, 50}, {RetryPolicy{Errors: 1}, 1, 1}, {RetryPolicy{Errors: 3}, 3, 3}, {RetryPolicy{Errors: 20}, 20, 20},
		{RetryPolicy{Errors: 2, Window: time.Millisecond}, 0, 1}, {RetryPolicy{Errors: -1}, 0, 50}, {RetryPolicy{Errors: 5, Window: 3 * time.Second}, 0, 3},
	} {
		var errs []ErrorEntry
		failures, gaveUp := 0, 0
		if n := c.policy.Counted(nil, 0); n != 0 {
			t.Errorf("%+v: %d errors count of none", c.policy, n)
		}
		for i := 1; i <= 50 && gaveUp == 0; i++ {
			now := start.Add(time.Duration(i) * time.Second)
			failures = c.policy.CountFailure(errs, failures, now)
			errs = AddError(errs, now, "x")
			if c.policy.HandleErrors(errs, failures, now, 0).Message == Error {
				gaveUp = i
			}
		}
		if gaveUp != c.after {
			t.Errorf("%+v gave up after %d errors, want %d", c.policy, gaveUp, c.after)
		}
		if n := c.policy.Counted(errs, failures); n != c.counted {
			t.Errorf("%+v: %d errors count, want %d", c.policy, n, c.counted)
		}
	}
}

func TestHandleErrors_TheSleepIsWithinItsBounds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, p := range []RetryPolicy{{}, {Min: time.Minute}, {Max: 10 * time.Millisecond}, {Min: time.Hour, Max: 100000 * time.Hour}, {Errors: -1, Min: 1, Max: 1 << 62}} {
		for failures := range 70 {
			var errs []ErrorEntry
			for range min(failures, 7) {
				errs = AddError(errs, now, "x")
			}
			for _, random := range []float64{0, 0.999} {
				d := p.HandleErrors(errs, failures, now, random)
				if d.Message != Sleep {
					t.Fatalf("%+v after %d: %+v", p, failures, d)
				}
				limits := p.withDefaults()
				if s := d.Until.Sub(now); s < limits.Min/2 || s > limits.Max {
					t.Errorf("%+v after %d errors sleeps %v", p, failures, s)
				}
			}
		}
	}
}

func TestCommand_M52_SleepNeedsATimeAndErrorAText(t *testing.T) {
	for _, good := range []string{
		`{"message":"run"}`, "pause", " kill\n", `{"message":"sleep","until":"2026-01-01T00:00:00Z"}`, `{"message":"error","error":"x"}`,
		`{"message":"checkpoint","future":1}`,
	} {
		if _, err := ParseCommand([]byte(good)); err != nil {
			t.Errorf("ParseCommand(%s) = %v", good, err)
		}
	}
	for bad, field := range map[string]string{
		"": "message", "{}": "message", "dance": "message", `{"message":"dance"}`: "message", "sleep": "until", "error": "error",
		`{"message":"pause","until":"2026-01-01T00:00:00Z"}`: "until", `{"message":"run","error":"x"}`: "error",
		`{"message":"error","error":"` + strings.Repeat("x", ErrorBytesMax+1) + `"}`: "error",
	} {
		var wrong *invalid.Input
		if _, err := ParseCommand([]byte(bad)); !errors.As(err, &wrong) || wrong.Field != field || wrong.Limit == "" {
			t.Errorf("ParseCommand(%.40s) = %v", bad, err)
		}
	}
	if _, err := ParseCommand([]byte("{")); err == nil {
		t.Error("half a command was accepted")
	}
}

func TestCommand_M56_ParsesTheJSONThatItEncodes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, c := range map[string]Command{
		`{"message":"pause"}`:                                {Message: Pause},
		`{"message":"sleep","until":"2026-01-02T03:04:05Z"}`: SleepUntil(at),
		`{"message":"error","error":"no route"}`:             Fail("no route"),
	} {
		value, err := json.Marshal(c)
		if err != nil || string(value) != want {
			t.Errorf("%s, %v; want %s", value, err, want)
		}
		back, err := ParseCommand(value)
		if err != nil || back.Message != c.Message || back.Error != c.Error || (back.Until == nil) != (c.Until == nil) {
			t.Errorf("%s came back as %+v, %v", value, back, err)
		}
	}
}

func TestAddError_KeepsAtMostEightAndDoesNotModifyItsArgument(t *testing.T) {
	var errs []ErrorEntry
	for i := range 20 {
		before := len(errs)
		next := AddError(errs, time.Unix(int64(i), 0), strings.Repeat("x", 5000))
		if len(errs) != before {
			t.Fatal("the argument was changed")
		}
		errs = next
	}
	if len(errs) != ErrorsMax || errs[0].Timestamp.Unix() != 12 || len(errs[0].Error) > ErrorBytesMax+16 {
		t.Errorf("%d errors, the oldest of %v, %d bytes", len(errs), errs[0].Timestamp, len(errs[0].Error))
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"state":"runnable"}`, `{"state":"sleeping","until":"2026-01-01T00:00:00Z"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, err := Parse(value); err == nil && !r.State.Valid() {
			t.Errorf("%q gave the state %q", value, r.State)
		}
	})
}
