package windlass

import (
	"context"
	"fmt"
	"iter"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/listing"
)

// TaskChange is a task that appeared or changed, or that is gone.
type TaskChange struct {
	Task TaskInfo
	// Gone is true if a task that was selected before was deleted or is no longer
	// selected. Only its ID is set then.
	Gone bool
	// Revision is the store revision at which the watch learned of the change. The data
	// of a task is spread over several prefixes that are watched separately, so
	// revisions may fall from one change to the next.
	Revision int64
}

// WatchTasks yields the selected tasks, sorted by ID, and then every change, until ctx
// is done or the caller stops. Of a task that waits for others, and still does when one of
// them ends, it tells at most once a second. If the broker is unreachable, it yields the error and
// continues once the broker is back; the caller may stop instead.
func (c *Client) WatchTasks(ctx context.Context, f Filter) iter.Seq2[TaskChange, error] {
	return taskChanges(listing.Watch(ctx, c.broker, c.space, readListed, func(t *listing.Task) bool { return f.Matches(infoOf(t)) }))
}

// taskChanges returns the changes of a watch as they are shown.
func taskChanges(watch iter.Seq2[listing.Change, error]) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		for change, err := range watch {
			switch {
			case err != nil:
				err = fmt.Errorf("watch tasks: %w", err)
				if !yield(TaskChange{}, err) {
					return
				}
				continue
			case change.Gone:
				if !yield(TaskChange{Task: TaskInfo{ID: change.Task.ID}, Gone: true, Revision: change.Revision}, nil) {
					return
				}
				continue
			}
			if !yield(TaskChange{Task: infoOf(&change.Task), Revision: change.Revision}, nil) {
				return
			}
		}
	}
}

// TaskCopy is an in-memory copy of the listed data of a namespace's tasks. It is meant
// for servers: clients with the option WithTaskCopy answer lists from it. Other clients
// read all tasks for every list, however few of them they return. Its methods are safe
// for concurrent use.
//
// The copy is kept current while its Watch runs. It lags behind the broker by as much
// as a watch does: milliseconds, and up to broker.ProgressMax while the broker does not
// answer. A write through its Broker is in every list that begins afterwards. While the
// copy is not kept current, or lags, lists are read from the broker, one at a time.
type TaskCopy struct{ copy *listing.Copy }

// NewTaskCopy returns a copy that is not kept current until Watch is called. An empty
// namespace means NamespaceDefault. The copy does not close the broker.
func NewTaskCopy(b broker.Broker, namespace string) (*TaskCopy, error) {
	client, err := NewClient(b, namespace)
	if err != nil {
		return nil, err
	}
	return &TaskCopy{listing.NewCopy(b, client.space, readListed)}, nil
}

// WithTaskCopy makes a client answer lists of tasks from a copy of its namespace.
func WithTaskCopy(t *TaskCopy) ClientOption { return func(c *Client) { c.copy = t.copy } }

// Broker returns the copy's broker, which keeps track of what is written through it.
func (t *TaskCopy) Broker() broker.Broker { return t.copy.Broker() }

// Watch keeps the copy current while the caller iterates over it, one caller at a time.
// It yields what Client.WatchTasks yields for all tasks.
func (t *TaskCopy) Watch(ctx context.Context) iter.Seq2[TaskChange, error] {
	return taskChanges(t.copy.Watch(ctx))
}

// Count counts the tasks by status, with an entry for every Status; nil while the copy
// is not kept current.
func (t *TaskCopy) Count() map[Status]int {
	counts := make(map[Status]int, len(Statuses))
	for _, s := range Statuses {
		counts[s] = 0
	}
	if !t.copy.EachNow(listing.Range{}, func(t *listing.Task) bool {
		counts[Status(t.Status)]++
		return true
	}) {
		return nil
	}
	return counts
}
