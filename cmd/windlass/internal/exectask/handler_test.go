package exectask

import (
	"errors"
	"slices"
	"testing"
)

// The link to the supervisor calls logFailed, and an event may block, as a log on a full disk
// does: no pong would be read meanwhile.
func TestHandler_LogFailedIsCalledByNoReaderOfTheSupervisor(t *testing.T) {
	var told []string
	h := Handlers(nil, Allow{}, Events{LogFailed: func(task string, err error) { told = append(told, task+": "+err.Error()) }})[Type](nil).(*handler)
	h.tellFailed("t")
	h.logFailed(errors.New("disk full"))
	h.logFailed(errors.New("of a run that follows before that is told"))
	if len(told) > 0 || len(h.asks) != 1 {
		t.Errorf("told %q, asked for %d reports", told, len(h.asks))
	}
	h.tellFailed("t")
	h.tellFailed("t")
	if want := []string{"t: disk full"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
