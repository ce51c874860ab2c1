package listing

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Copy is an index that is kept current while its Watch runs, and answers lists. Its methods are safe for concurrent
// use. It lags behind the broker by as much as a watch does. A write through its Broker is in every list that begins
// afterwards.
type Copy struct {
	space  keys.Space
	read   Read
	writes *noticedWrites
	// reading is held while all tasks are read from the broker.
	reading chan struct{}

	mu sync.Mutex
	// watch has the copy, nil while it is incomplete or not kept current.
	watch *watch
	ids   *sortedIDs
}

// NewCopy returns a copy that is not kept current until Watch is called.
func NewCopy(b broker.Broker, space keys.Space, read Read) *Copy {
	return &Copy{space: space, read: read, writes: noticeWrites(b, NewIndex(space, read)), reading: make(chan struct{}, 1)}
}

// Broker returns the copy's broker, which keeps track of what is written through it.
func (c *Copy) Broker() broker.Broker { return c.writes }

// catchUpMax limits how long a list waits for earlier writes to reach the copy.
const catchUpMax = time.Second

// Watch keeps the copy current while the caller iterates over it, one caller at a time. It yields what the function Watch
// yields for all tasks.
func (c *Copy) Watch(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		w, ids := newWatch(c.space, c.read, func(*Task) bool { return true }), &sortedIDs{known: map[string]bool{}}
		w.own = c.writes.own
		c.writes.follow(w)
		defer c.writes.follow(nil)
		defer c.use(nil, nil)
		var troubled [sourceCount]bool
		mirror.FollowAll(ctx, c.writes, w.tasks.sources(), w.later.C, func(u mirror.Sourced, complete bool) bool {
			if u.Source == mirror.Woken {
				return !complete || w.showMoved(yield)
			}
			if troubled[u.Source] = u.Err != nil; u.Err != nil {
				c.use(nil, nil) // a list must now get its error from the broker
				return yield(Change{}, u.Err)
			}
			changed := w.apply(u)
			w.mu.RLock()
			ids.take(w.tasks, changed)
			w.mu.RUnlock()
			c.writes.arrived(u)
			if !complete {
				return true
			}
			if troubled == [sourceCount]bool{} {
				c.use(w, ids)
			}
			return w.show(changed, int64(u.Revision()), yield)
		})
	}
}

func (c *Copy) use(w *watch, ids *sortedIDs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch, c.ids = w, ids
}

// Each passes the tasks of a range to take, by ID, until take returns false. Each itself
// returns false if there is no copy, or it is not recent enough. take must not keep the pointer.
func (c *Copy) Each(ctx context.Context, r Range, take func(*Task) bool) bool {
	return c.writes.wait(ctx, catchUpMax) && c.EachNow(r, take)
}

// EachNow is Each for the copy as it is, without the writes that have not reached it.
func (c *Copy) EachNow(r Range, take func(*Task) bool) bool {
	c.mu.Lock()
	w, ids := c.watch, c.ids
	c.mu.Unlock()
	if w == nil {
		return false
	}
	sorted := ids.sorted()
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.tasks.each(sorted, r, take)
	return true
}

// Alone waits until no one else reads all tasks from the broker. The caller must call
// over when its own read is done.
func (c *Copy) Alone(ctx context.Context) (over func(), err error) {
	select {
	case c.reading <- struct{}{}:
		return func() { <-c.reading }, nil
	case <-ctx.Done():
		return nil, broker.NewError("list", c.space.Tasks(), broker.ErrUnavailable, ctx.Err())
	}
}
