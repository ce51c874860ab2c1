package deaths

import (
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

func TestHeir_O02_LeavesAloneWhatTheDeadMayHaveRunUntilItsDeathIsRecorded(t *testing.T) {
	unknown, known := &mirror.Task{ID: "a"}, &mirror.Task{ID: "b", Last: "other"}
	var recorded []string
	has := func(incarnation string) bool { return slices.Contains(recorded, incarnation) }
	w := NewWatcher(watcherTTL)
	open := func(task *mirror.Task, now, want time.Time) {
		t.Helper()
		if got := w.Inherits(task, has, now); !got.Equal(want) {
			t.Errorf("%s is left alone until %v, want %v", task.ID, got, want)
		}
	}
	open(unknown, start, time.Time{})
	w.Inherit("i", start)
	for range 2 {
		open(unknown, start, start.Add(recordedWithin))
		open(known, start, time.Time{})
	}
	if got := w.Inherited(has); got != nil {
		t.Errorf("%v are settled before the death is recorded", got)
	}
	recorded = []string{"i"}
	open(unknown, start, time.Time{})
	if got := w.Inherited(has); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v are settled, want a, once", got)
	}
	if got := w.Inherited(has); got != nil {
		t.Errorf("%v are settled again", got)
	}
}

func TestHeir_O02_ForgetsADeathThatNobodyRecords(t *testing.T) {
	w := NewWatcher(watcherTTL)
	w.Inherit("i", start)
	nobody := func(string) bool { return false }
	if got := w.Inherits(&mirror.Task{ID: "a"}, nobody, start.Add(recordedWithin)); !got.IsZero() || w.heir != nil {
		t.Errorf("it waits until %v, and keeps %v", got, w.heir)
	}
}
