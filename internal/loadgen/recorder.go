package loadgen

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
)

// taskPrefix begins the ID of every task; its number follows.
const taskPrefix = "task-"

func taskID(number int) string { return fmt.Sprintf("%s%08d", taskPrefix, number) }

func taskNumber(id string) (int64, error) {
	digits, ok := strings.CutPrefix(id, taskPrefix)
	if !ok {
		return 0, fmt.Errorf("task %q is not of this run", id)
	}
	return strconv.ParseInt(digits, 10, 32)
}

// recorder is the handler of all tasks of a node: it waits, and writes down when
// it began and when it was told to stop. The clock is read under the lock, so that
// what was taken is complete up to when it was taken.
type recorder struct {
	// changed has an element when the number of running tasks may have changed.
	changed chan struct{}

	mu      sync.Mutex
	events  [][2]int64
	running int
}

// handle is a handler.
func (r *recorder) handle(ctx context.Context, c *windlass.Claim) error {
	number, err := taskNumber(c.ID())
	if err != nil {
		return windlass.Permanent(err)
	}
	r.write(number, true)
	<-ctx.Done()
	r.write(number, false)
	return ctx.Err()
}

func (r *recorder) write(number int64, starts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UnixNano()
	if starts {
		r.running++
		r.events = append(r.events, [2]int64{number, now})
	} else {
		r.running--
		r.events = append(r.events, [2]int64{number, -now})
	}
	select {
	case r.changed <- struct{}{}:
	default: // it is known
	}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// take returns what was written down since the last time, up to when that is
// complete, and how many tasks run then.
func (r *recorder) take() (events [][2]int64, asOf int64, running int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.events = r.events, nil
	return events, time.Now().UnixNano(), r.running
}
