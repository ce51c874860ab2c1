package exectask

import (
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

// The pause before a command with "restart":"always" is started again doubles from
// restartMin to restartMax. After a run longer than restartReset it is restartMin again.
const (
	restartMin   = time.Second
	restartMax   = time.Minute
	restartReset = time.Minute
)

// restarts counts how often a command was started again since the start of the handler.
type restarts struct {
	statemachine.Restarts
	pause time.Duration // the latest
}

// ended counts the end of a run that has lasted for so long, and returns the pause before
// the next.
func (r *restarts) ended(at time.Time, lasted time.Duration, end string) time.Duration {
	if lasted > restartReset {
		r.lasted()
	}
	if r.InARow == 0 {
		r.Since = at
	}
	r.pause = min(max(2*r.pause, restartMin), restartMax)
	r.Count, r.InARow = r.Count+1, r.InARow+1
	r.LastEnd, r.LastAt, r.Next = end, at, at.Add(r.pause)
	return r.pause
}

// lasted says that the restarts so far have led to a run that lasts.
func (r *restarts) lasted() { r.InARow, r.Since, r.pause = 0, time.Time{}, 0 }

// whenLasting records that there are no restarts in a row any more, once a run that follows
// some lasts. The caller must call stop at the end of the run.
func (r restarts) whenLasting(record func(statemachine.Restarts)) (stop func()) {
	if r.InARow == 0 {
		return func() {}
	}
	recorded := make(chan struct{})
	timer := time.AfterFunc(restartReset, func() {
		defer close(recorded)
		r.lasted()
		record(r.Restarts)
	})
	return func() {
		if !timer.Stop() {
			<-recorded // or it could replace what is recorded of the next end
		}
	}
}
