// Package listing combines what is stored about tasks in different places into what a list shows of them, read once or
// kept current.
package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/subtree"
	"github.com/windlass-go/windlass/statemachine"
)

// Read parses a stored spec.
type Read func(spec []byte) Spec

// Index combines what is stored about tasks. It keeps only what
// a list shows, because there may be very many tasks: no properties, no results.
type Index struct {
	space  keys.Space
	read   Read
	tasks  *mirror.Tasks
	states map[string]*state
	// claimed is when each claim was granted, nil if that is not readable.
	claimed map[string]*time.Time
	// restarts are those that the holders of tasks have recorded.
	restarts map[string]*statemachine.Restarts
	// fading has tasks whose keys are gone, in their last form: their states may become
	// known a moment later.
	fading map[string]fading
	// words are shared by many tasks, such as their types; values are those of tags, of
	// which so many may differ that they have no place among the words.
	words, values *words
}

// fading is a task whose keys were gone at a revision.
type fading struct {
	task  Task
	at    broker.Revision
	until time.Time
}

// NewIndex returns an empty index of a namespace.
func NewIndex(space keys.Space, read Read) *Index {
	x := &Index{
		space: space, read: read, states: map[string]*state{}, claimed: map[string]*time.Time{}, restarts: map[string]*statemachine.Restarts{},
		fading: map[string]fading{}, words: newWords(), values: newWords(),
	}
	x.tasks = mirror.NewTasks(space, mirror.Keep{Kind: func(value []byte) any { return x.seeSpec(value) }})
	return x
}

func (x *Index) seeSpec(value []byte) *Spec {
	s := x.read(value)
	s.Type, s.Tags = x.words.of(s.Type), x.sharedTags(s.Tags)
	return &s
}

// sharedTags returns tags whose texts are shared.
func (x *Index) sharedTags(tags map[string]string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	shared := make(map[string]string, len(tags))
	for key, value := range tags {
		shared[x.words.of(key)] = x.values.of(value)
	}
	return shared
}

// spec returns the spec of a task. A task that has only properties has none.
func (x *Index) spec(t *mirror.Task) *Spec {
	if s, ok := t.Kind.(*Spec); ok {
		return s
	}
	return &Spec{}
}

// The sources of an index.
const (
	taskSource = iota
	claimSource
	stateSource
	sourceCount
)

// sources returns the prefixes where the data is stored. The tasks come first: a task
// that is done between the reads is then found in the states.
func (x *Index) sources() []mirror.Source {
	return []mirror.Source{
		taskSource:  {Prefix: x.space.Tasks(), Strip: x.tasks.Strip, Prepare: x.tasks.Prepare},
		claimSource: {Prefix: x.space.Claims()},
		stateSource: {Prefix: x.space.States()},
	}
}

// Load reads everything. Values that are not kept are dropped page by page.
func Load(ctx context.Context, store broker.Broker, space keys.Space, read Read) (*Index, error) {
	for attempt := 1; ; attempt++ {
		x := NewIndex(space, read)
		err := x.load(ctx, store)
		if err == nil || attempt == attempts.Max || !errors.Is(err, broker.ErrCompacted) {
			return x, err
		}
	}
}

func (x *Index) load(ctx context.Context, store broker.Broker) error {
	for _, source := range x.sources() {
		for page, err := range store.List(ctx, source.Prefix) {
			if err != nil {
				return err
			}
			for _, kv := range page.KVs {
				x.Set(broker.Event{KV: kv})
			}
		}
	}
	return nil
}

// ReadBlockers reads which blockers of one task exist.
func (x *Index) ReadBlockers(ctx context.Context, store broker.Broker, id string) error {
	t := x.tasks.Get(id)
	if t == nil || t.Owned() {
		return nil
	}
	var txns []broker.Txn
	blockers, err := subtree.Expand(ctx, store, x.space, depend.Blockers(id, x.spec(t).Needs))
	if err != nil {
		return err
	}
	for _, blocker := range blockers {
		txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(x.space.Task(blocker)), broker.Read(x.space.Failed(blocker))}})
	}
	if len(txns) == 0 {
		return nil
	}
	for _, r := range store.Commit(ctx, txns...) {
		if r.Err != nil {
			return r.Err
		}
		for _, kv := range r.Reads {
			if kv != nil {
				x.Set(broker.Event{KV: *kv})
			}
		}
	}
	return nil
}

// Set applies a change of a key, and returns the key's task; empty for none.
func (x *Index) Set(e broker.Event) string {
	p := x.space.Parse(e.KV.Key)
	switch p.Kind {
	case keys.State:
		if delete(x.states, p.Name); !e.Deleted {
			x.states[p.Name] = x.seeState(e.KV.Value)
		}
	case keys.Claim:
		x.setClaim(p.Name, e)
	default:
		if len(x.tasks.Apply(broker.Batch{Events: []broker.Event{e}})) == 0 {
			return ""
		}
	}
	return p.Name
}

// setClaim applies a change of the record of a claim.
func (x *Index) setClaim(id string, e broker.Event) {
	delete(x.claimed, id)
	delete(x.restarts, id)
	if e.Deleted {
		return
	}
	var record coordinator.Record
	x.claimed[id] = nil
	if json.Unmarshal(e.KV.Value, &record) == nil && !record.ClaimedAt.IsZero() {
		at := record.ClaimedAt // so that the rest is not kept
		x.claimed[id] = &at
		if record.Restarts != nil {
			x.restarts[id] = record.Restarts
		}
	}
}

func (x *Index) seeState(value []byte) *state {
	r, err := statemachine.Parse(value)
	return &state{
		state: statemachine.State(x.words.of(string(r.State))), taskType: x.words.of(r.Type), node: x.words.of(r.Node), priority: r.Priority, token: r.Token,
		until: r.Until, submitted: r.SubmittedAt, claimed: r.ClaimedAt, at: r.ChangedAt, err: err,
		tags: x.sharedTags(TagsIn(r.Spec)), errors: slices.Clip(r.Errors), failures: r.Failures, // lists append to errors
	}
}

// TagsIn returns the tags in what a task that has ended was submitted with. Few have any,
// so the rest of it is not parsed.
func TagsIn(spec json.RawMessage) map[string]string {
	var s struct {
		Tags map[string]string `json:"tags"`
	}
	if !bytes.Contains(spec, []byte(`"tags"`)) || json.Unmarshal(spec, &s) != nil {
		return nil
	}
	return s.Tags
}

// state returns the state of a task; empty if none is stored.
func (x *Index) state(id string) *state {
	if s := x.states[id]; s != nil {
		return s
	}
	return &state{}
}

// has reports whether a key exists.
func (x *Index) has(key string) bool {
	p := x.space.Parse(key)
	t := x.tasks.Remains(p.Name)
	there := false
	switch p.Kind {
	case keys.State:
		_, there = x.states[p.Name]
	case keys.Claim:
		_, there = x.claimed[p.Name]
	case keys.Task:
		there = t != nil && t.HasKey
	case keys.Props:
		there = t != nil && t.HasProps
	case keys.Owner:
		there = t != nil && t.Owned()
	case keys.Failed:
		there = t != nil && t.Failed != mirror.NotFailed
	}
	return there
}

// lists reports whether there is a task, live or done, or was until just now. The state
// that a deleted task left behind does not count.
func (x *Index) lists(id string) bool {
	_, fades := x.fading[id]
	return fades || x.tasks.Get(id) != nil || x.state(id).state.Terminal()
}

// ids yields the ID of every task, live and done.
func (x *Index) ids() iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range x.tasks.All() {
			if !yield(t.ID) {
				return
			}
		}
		for id := range x.states {
			if x.tasks.Get(id) == nil && x.state(id).state.Terminal() && !yield(id) {
				return
			}
		}
	}
}

// Range selects tasks by their IDs: those that begin with Prefix and are greater than After.
type Range struct {
	Prefix, After string
	// AllBlockers shows all that a task waits for, instead of the first ones.
	AllBlockers bool
}

// Each passes the tasks of a range to take, by ID, until it returns false. take must not keep the pointer.
func (x *Index) Each(r Range, take func(*Task) bool) { x.each(slices.Sorted(x.ids()), r, take) }

// each is Each for the IDs of all tasks, sorted.
func (x *Index) each(ids []string, r Range, take func(*Task) bool) {
	now, most := time.Now(), blockersShown
	if r.AllBlockers {
		most = math.MaxInt
	}
	from, _ := slices.BinarySearch(ids, max(r.After, r.Prefix))
	var task Task // one for all: a list may have very many
	for _, id := range ids[from:] {
		if id > r.Prefix && !strings.HasPrefix(id, r.Prefix) {
			return
		}
		ok := x.describe(&task, id, now, most)
		if !ok {
			l := x.fading[id]
			task, ok = l.task, now.Before(l.until)
		}
		if ok && !take(&task) {
			return
		}
	}
}

// blockersShown is how many of the tasks are listed that one waits for. There may be ten
// thousand, and an event each second tells of them.
const blockersShown = 20

// Task describes one task, with the first ones of those that it waits for; false if there is
// none now.
func (x *Index) Task(id string, now time.Time) (task Task, ok bool) {
	ok = x.describe(&task, id, now, blockersShown)
	return task, ok
}

// describe sets task. It returns false if there is none now.
func (x *Index) describe(task *Task, id string, now time.Time, blockersMost int) bool {
	t, s := x.tasks.Get(id), x.state(id)
	if t == nil && !s.state.Terminal() {
		return false
	}
	*task = Task{ID: id, Errors: s.errors, Until: s.until}
	if s.err != nil {
		task.Errors = append(task.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + s.err.Error()})
	}
	if s.state.Terminal() {
		task.Type, task.Priority, task.SubmittedAt = s.taskType, s.priority, s.submitted
		task.Node, task.Token, task.ClaimedAt, task.Tags = s.node, s.token, s.claimed, s.tags
		task.Status, task.FinishedAt = string(s.state), s.at
		return true
	}
	x.live(task, t, s, now, blockersMost)
	return true
}

func (x *Index) live(task *Task, t *mirror.Task, s *state, now time.Time, blockersMost int) {
	unreadable := s.err != nil
	spec := x.spec(t)
	if spec.Err != nil {
		unreadable = true
		task.Errors = append(task.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + spec.Err.Error()})
	}
	task.Type, task.Priority, task.Weight, task.NotBefore, task.SubmittedAt = spec.Type, spec.Priority, spec.Weight, spec.NotBefore, spec.Submitted
	task.Tags = spec.Tags
	task.Failures, task.FailuresMax = spec.Retry.Counted(s.errors, s.failures), max(spec.Retry.Errors, 0)
	if t.Owned() {
		task.Node, task.Token, task.ClaimedAt = t.Owner, int64(t.Token), x.claimed[t.ID]
		task.Restarts = x.restarts[t.ID]
	} else {
		task.Waits = kind.Waits(depend.Blockers(t.ID, spec.Needs), x.tasks, blockersMost)
	}
	switch {
	case unreadable:
		task.Status = string(statemachine.Fault)
	case s.state == statemachine.Fault, s.state == statemachine.Sleeping, s.state == statemachine.Paused:
		task.Status = string(s.state)
	case t.Owned() && (t.Created <= t.Token || t.Session == 0):
		task.Status = Running // otherwise an older run of its ID has not returned yet
	case len(task.Waits.By) > 0:
		task.Status = Blocked
	default:
		task.Status = Pending
	}
}
