package statemachine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	allStates   = []State{Runnable, Sleeping, Paused, Fault, Completed, Failed, Killed}
	allMessages = []Message{Run, Sleep, Pause, Release, Error, Kill, Complete, Checkpoint}
)

// contract restates M51 in the words of the contract, so that the table in the
// code and this one can only agree by being right.
var contract = map[State]string{
	Runnable: "checkpoint=runnable release=runnable run=runnable sleep=sleeping complete=completed kill=killed error=fault pause=paused",
	Sleeping: "checkpoint=sleeping release=sleeping sleep=sleeping run=runnable kill=killed pause=paused error=fault",
	Paused:   "checkpoint=paused release=paused pause=paused run=runnable sleep=sleeping kill=killed",
	Fault:    "sleep=sleeping error=failed run=runnable kill=killed",
}

func TestNext_M51_EveryPairIsAsTheContractSays(t *testing.T) {
	for _, s := range allStates {
		want := map[Message]State{}
		for _, pair := range strings.Fields(contract[s]) {
			m, next, _ := strings.Cut(pair, "=")
			want[Message(m)] = State(next)
		}
		for _, m := range allMessages {
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
	r, err := Parse(nil)
	if err != nil || r.State != Runnable {
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

func TestHandleErrors_M55_SleepsLongerAndFailsAfterEightInFourHours(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var errs []ErrorEntry
	var last time.Duration
	for i := 1; i < ErrorsMax; i++ {
		errs = AddError(errs, now, "x")
		d := HandleErrors(errs, now, 0.5)
		if d.Message != Sleep || d.Until.Sub(now) <= last {
			t.Fatalf("after %d errors: %+v, the sleep before was %v", i, d, last)
		}
		last = d.Until.Sub(now)
	}
	errs = AddError(errs, now, "x")
	if d := HandleErrors(errs, now, 0); d.Message != Error {
		t.Errorf("after %d errors: %+v", len(errs), d)
	}
	if d := HandleErrors(errs, now.Add(FaultWindow), 0); d.Message != Sleep {
		t.Errorf("errors older than the window count: %+v", d)
	}
}

func TestAddError_KeepsAtMostEightAndLeavesItsArgumentAlone(t *testing.T) {
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
