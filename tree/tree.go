package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/operate"
)

// Tree queues the jobs of a namespace and reads their state. Its methods are safe for
// concurrent use. Broker errors are passed on as those of package broker.
type Tree struct {
	broker broker.Broker
	client *windlass.Client
	space  keys.Space

	// queueMax is how many jobs one call makes, looksMax how many of its requests look for jobs.
	queueMax, looksMax int

	mu       sync.Mutex
	children childCounts
}

// New returns the tree of a namespace; an empty one means windlass.NamespaceDefault. It
// does not close the broker. The options are those of its client.
func New(b broker.Broker, namespace string, options ...windlass.ClientOption) (*Tree, error) {
	client, err := windlass.NewClient(b, namespace, options...)
	if err != nil {
		return nil, err
	}
	if namespace == "" {
		namespace = windlass.NamespaceDefault
	}
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	return &Tree{broker: b, client: client, space: space, queueMax: QueueMax, looksMax: QueueMax}, nil
}

// Limit lowers how many jobs one call of Queue or QueueInTurn makes, QueueMax by default, and how many of its
// requests have Under or Cascade, for a program that queues for others: each of these reads all jobs that
// there are. It must be called before the tree is used.
func (t *Tree) Limit(jobs, looks int) { t.queueMax, t.looksMax = min(jobs, QueueMax), looks }

// Init creates the namespace if there is none; otherwise it changes nothing.
func (t *Tree) Init(ctx context.Context) error { return operate.New(t.client).Init(ctx) }

// records returns the jobs as they were queued.
func (t *Tree) records(ctx context.Context) (map[Path]windlass.JobRecord, map[Path]broker.Revision, error) {
	kvs, _, err := broker.Collect(ctx, t.broker, t.space.Jobs())
	if err != nil {
		return nil, nil, fmt.Errorf("list the tree: %w", err)
	}
	records, revisions := make(map[Path]windlass.JobRecord, len(kvs)), make(map[Path]broker.Revision, len(kvs))
	for _, kv := range kvs {
		p := t.space.Parse(kv.Key)
		if p.Kind != keys.Job {
			continue
		}
		var r windlass.JobRecord
		if json.Unmarshal(kv.Value, &r) != nil {
			r = windlass.JobRecord{} // its key has the path, and its task the status
		}
		records[pathOf(p.Name)], revisions[pathOf(p.Name)] = r, kv.Modified
	}
	return records, revisions, nil
}

// Load reads all jobs and their state.
func (t *Tree) Load(ctx context.Context) (*Forest, error) {
	// The tree is read first: a job that is queued in between is not in it, and one that is
	// pruned in between has no task.
	records, _, err := t.records(ctx)
	if err != nil {
		return nil, err
	}
	infos, err := t.client.Tasks(ctx, windlass.Filter{})
	if err != nil {
		return nil, err
	}
	jobs := make([]JobInfo, 0, len(records))
	for _, info := range infos {
		if keys.CheckJobID(info.ID) != nil {
			continue
		}
		if r, ok := records[pathOf(info.ID)]; ok {
			jobs = append(jobs, jobOf(info, r))
		}
	}
	return NewForest(jobs), nil
}

// Get returns one job, or windlass.ErrNotFound.
func (t *Tree) Get(ctx context.Context, path Path) (JobInfo, error) {
	if _, err := ParsePath(string(path)); err != nil {
		return JobInfo{}, err
	}
	kv, err := t.broker.Get(ctx, t.space.Job(path.ID()))
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return JobInfo{}, fmt.Errorf("job %s: %w", path, windlass.ErrNotFound)
	case err != nil:
		return JobInfo{}, fmt.Errorf("job %s: %w", path, err)
	}
	var r windlass.JobRecord
	if err := json.Unmarshal(kv.Value, &r); err != nil {
		return JobInfo{}, fmt.Errorf("job %s: its place in the tree is unreadable: %w", path, err)
	}
	d, err := t.client.Task(ctx, path.ID())
	if err != nil {
		return JobInfo{}, fmt.Errorf("job %s: %w", path, err)
	}
	return jobOf(d.TaskInfo, r).normal(), nil
}

// jobOf combines a task with its record in the tree.
func jobOf(info windlass.TaskInfo, r windlass.JobRecord) JobInfo {
	j := JobInfo{
		Path: pathOf(info.ID), Data: r.Data, Status: info.Status, Node: info.Node, Token: info.Token, Priority: info.Priority,
		QueuedAt: info.SubmittedAt, ClaimedAt: info.ClaimedAt, FinishedAt: info.FinishedAt,
		Needs: r.Spec.Needs, Blocked: info.Blocked, Errors: info.Errors, Until: info.Until,
	}
	if j.QueuedAt == nil && !r.QueuedAt.IsZero() {
		j.QueuedAt = &r.QueuedAt
	}
	switch n := len(info.Errors); {
	case len(info.FailedNeeds) > 0:
		j.Reason = shorten.ListOf(info.FailedNeeds, info.FailedNeedsCount) + " failed or was killed"
	case info.Status == windlass.StatusKilled && n > 0:
		j.Reason = info.Errors[n-1].Error
	}
	return j
}

// Pending returns the jobs that are not held and have not ended, including blocked
// ones.
func (t *Tree) Pending(ctx context.Context) ([]JobInfo, error) { return t.list(ctx, JobInfo.Pending) }

// Working returns the jobs that are held.
func (t *Tree) Working(ctx context.Context) ([]JobInfo, error) { return t.list(ctx, JobInfo.Working) }

// Completed returns the jobs that are done.
func (t *Tree) Completed(ctx context.Context) ([]JobInfo, error) {
	return t.list(ctx, JobInfo.Completed)
}

// Find returns the jobs whose name and type match a pattern.
func (t *Tree) Find(ctx context.Context, p Pattern) ([]JobInfo, error) {
	if _, err := p.compile("pattern"); err != nil {
		return nil, err
	}
	forest, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	return forest.find(ctx, p)
}

func (t *Tree) list(ctx context.Context, selected func(JobInfo) bool) ([]JobInfo, error) {
	forest, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(forest.Jobs(), func(j JobInfo) bool { return !selected(j) }), nil
}

// Watch yields the tree, and again whenever it has changed, at most as often as every,
// until ctx is done or the caller stops. If the broker is unreachable, it yields the
// error and continues once the broker is back.
func (t *Tree) Watch(ctx context.Context, every time.Duration) func(yield func(*Forest, error) bool) {
	return func(yield func(*Forest, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		changed := make(chan struct{}, 1)
		watching.Go(func() {
			for range t.client.WatchTasks(ctx, windlass.Filter{}) {
				select {
				case changed <- struct{}{}:
				default: // a change is already pending
				}
			}
		})
		for {
			forest, err := t.Load(ctx)
			if ctx.Err() != nil || !yield(forest, err) {
				return
			}
			if !pause.For(ctx, every) {
				return
			}
			if err != nil {
				continue // try again
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}
