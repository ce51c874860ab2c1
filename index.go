package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/subtree"
	"github.com/windlass-go/windlass/statemachine"
)

// taskIndex combines what is stored about tasks in different places. It keeps only what
// a list shows, because there may be very many tasks: no properties, no results.
type taskIndex struct {
	space  keys.Space
	tasks  *mirror.Tasks
	states map[string]*stateSeen
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
	info  TaskInfo
	at    broker.Revision
	until time.Time
}

// words are texts that are stored once for all tasks. They are safe for concurrent use: a
// listing is parsed while the index changes.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

// wordsMax limits the words that are remembered.
const wordsMax = 4096

func newWords() *words { return &words{known: map[string]string{}} }

// of returns a text that equals s.
func (w *words) of(s string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.known[s]; ok {
		return known
	}
	if len(w.known) < wordsMax {
		w.known[s] = s
	}
	return s
}

// sharedTags returns tags whose texts are shared.
func (b *taskIndex) sharedTags(tags map[string]string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	shared := make(map[string]string, len(tags))
	for key, value := range tags {
		shared[b.words.of(key)] = b.values.of(value)
	}
	return shared
}

// tagsIn returns the tags in what a task that has ended was submitted with. Few have any,
// so the rest of it is not parsed.
func tagsIn(spec json.RawMessage) map[string]string {
	var s struct {
		Tags map[string]string `json:"tags"`
	}
	if !bytes.Contains(spec, []byte(`"tags"`)) || json.Unmarshal(spec, &s) != nil {
		return nil
	}
	return s.Tags
}

// stateSeen is the part of a task's state that a list shows.
type stateSeen struct {
	state                         statemachine.State
	taskType, node                string
	priority                      int
	token                         int64
	until, submitted, claimed, at *time.Time
	errors                        []statemachine.ErrorEntry
	failures                      int
	tags                          map[string]string
	// err is set if it cannot be read.
	err error
}

// specSeen is the part of a spec that a list shows.
type specSeen struct {
	taskType         string
	priority, weight int
	notBefore        time.Time
	submitted        *time.Time
	needs            []string
	retry            statemachine.RetryPolicy
	tags             map[string]string
	err              error
}

func newTaskIndex(space keys.Space) *taskIndex {
	b := &taskIndex{space: space, states: map[string]*stateSeen{}, claimed: map[string]*time.Time{}, restarts: map[string]*statemachine.Restarts{}, fading: map[string]fading{}, words: newWords(), values: newWords()}
	b.tasks = mirror.NewTasks(space, mirror.Keep{Kind: func(value []byte) any { return b.seeSpec(value) }})
	return b
}

func (b *taskIndex) seeSpec(value []byte) *specSeen {
	spec, err := parseSpec(value)
	s := &specSeen{taskType: b.words.of(spec.Type), tags: b.sharedTags(spec.Tags), priority: spec.Priority, weight: spec.Weight, notBefore: spec.NotBefore, needs: spec.Needs, retry: spec.RetryPolicy(), err: err}
	if at := spec.SubmittedAt; !at.IsZero() { // a copy: a pointer into the spec would keep all of it
		s.submitted = &at
	}
	return s
}

// spec returns the spec of a task. A task that has only properties has none.
func (b *taskIndex) spec(t *mirror.Task) *specSeen {
	if s, ok := t.Kind.(*specSeen); ok {
		return s
	}
	return &specSeen{}
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
func (b *taskIndex) sources() []mirror.Source {
	return []mirror.Source{
		taskSource:  {Prefix: b.space.Tasks(), Strip: b.tasks.Strip, Prepare: b.tasks.Prepare},
		claimSource: {Prefix: b.space.Claims()},
		stateSource: {Prefix: b.space.States()},
	}
}

// loadTaskIndex reads everything. Values that are not kept are dropped page by page.
func loadTaskIndex(ctx context.Context, store broker.Broker, space keys.Space) (*taskIndex, error) {
	for attempt := 1; ; attempt++ {
		b := newTaskIndex(space)
		err := b.load(ctx, store)
		if err == nil || attempt == attempts.Max || !errors.Is(err, broker.ErrCompacted) {
			return b, err
		}
	}
}

func (b *taskIndex) load(ctx context.Context, store broker.Broker) error {
	for _, source := range b.sources() {
		for page, err := range store.List(ctx, source.Prefix) {
			if err != nil {
				return err
			}
			for _, kv := range page.KVs {
				b.set(broker.Event{KV: kv})
			}
		}
	}
	return nil
}

// readBlockers reads which blockers of one task exist.
func (b *taskIndex) readBlockers(ctx context.Context, store broker.Broker, id string) error {
	t := b.tasks.Get(id)
	if t == nil || t.Owned() {
		return nil
	}
	var txns []broker.Txn
	blockers, err := subtree.Expand(ctx, store, b.space, depend.Blockers(id, b.spec(t).needs))
	if err != nil {
		return err
	}
	for _, blocker := range blockers {
		txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(b.space.Task(blocker)), broker.Read(b.space.Failed(blocker))}})
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
				b.set(broker.Event{KV: *kv})
			}
		}
	}
	return nil
}

// set applies a change of a key, and returns the key's task; empty for none.
func (b *taskIndex) set(e broker.Event) string {
	p := b.space.Parse(e.KV.Key)
	switch p.Kind {
	case keys.State:
		if delete(b.states, p.Name); !e.Deleted {
			b.states[p.Name] = b.seeState(e.KV.Value)
		}
	case keys.Claim:
		b.setClaim(p.Name, e)
	default:
		if len(b.tasks.Apply(broker.Batch{Events: []broker.Event{e}})) == 0 {
			return ""
		}
	}
	return p.Name
}

// setClaim applies a change of the record of a claim.
func (b *taskIndex) setClaim(id string, e broker.Event) {
	delete(b.claimed, id)
	delete(b.restarts, id)
	if e.Deleted {
		return
	}
	var record coordinator.Record
	b.claimed[id] = nil
	if json.Unmarshal(e.KV.Value, &record) == nil && !record.ClaimedAt.IsZero() {
		at := record.ClaimedAt // so that the rest is not kept
		b.claimed[id] = &at
		if record.Restarts != nil {
			b.restarts[id] = record.Restarts
		}
	}
}

func (b *taskIndex) seeState(value []byte) *stateSeen {
	r, err := statemachine.Parse(value)
	return &stateSeen{
		state: statemachine.State(b.words.of(string(r.State))), taskType: b.words.of(r.Type), node: b.words.of(r.Node), priority: r.Priority, token: r.Token,
		until: r.Until, submitted: r.SubmittedAt, claimed: r.ClaimedAt, at: r.ChangedAt, err: err,
		tags: b.sharedTags(tagsIn(r.Spec)), errors: slices.Clip(r.Errors), failures: r.Failures, // lists append to errors
	}
}

// state returns the state of a task; empty if none is stored.
func (b *taskIndex) state(id string) *stateSeen {
	if s := b.states[id]; s != nil {
		return s
	}
	return &stateSeen{}
}

// has reports whether a key exists.
func (b *taskIndex) has(key string) bool {
	p := b.space.Parse(key)
	t := b.tasks.Remains(p.Name)
	there := false
	switch p.Kind {
	case keys.State:
		_, there = b.states[p.Name]
	case keys.Claim:
		_, there = b.claimed[p.Name]
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
func (b *taskIndex) lists(id string) bool {
	_, fades := b.fading[id]
	return fades || b.tasks.Get(id) != nil || b.state(id).state.Terminal()
}

// ids yields the ID of every task, live and done.
func (b *taskIndex) ids() iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range b.tasks.All() {
			if !yield(t.ID) {
				return
			}
		}
		for id := range b.states {
			if b.tasks.Get(id) == nil && b.state(id).state.Terminal() && !yield(id) {
				return
			}
		}
	}
}

// each passes the selected ones of some sorted tasks to take until it returns false.
func (b *taskIndex) each(ids []string, f Filter, take func(TaskInfo) bool) {
	now, most := time.Now(), blockersShown
	if f.AllBlockers {
		most = math.MaxInt
	}
	from, _ := slices.BinarySearch(ids, max(f.After, f.IDPrefix))
	for _, id := range ids[from:] {
		if id > f.IDPrefix && !strings.HasPrefix(id, f.IDPrefix) {
			return
		}
		info, ok := b.describe(id, now, most)
		if !ok {
			l := b.fading[id]
			info, ok = l.info, now.Before(l.until)
		}
		if ok && f.Matches(info) && !take(info) {
			return
		}
	}
}

// info describes one task, with the first ones of those that it waits for; false if there is
// none now.
func (b *taskIndex) info(id string, now time.Time) (TaskInfo, bool) {
	return b.describe(id, now, blockersShown)
}

func (b *taskIndex) describe(id string, now time.Time, blockersMost int) (TaskInfo, bool) {
	t, s := b.tasks.Get(id), b.state(id)
	if t == nil && !s.state.Terminal() {
		return TaskInfo{}, false
	}
	info := TaskInfo{ID: id, Blocked: Blocked{BlockedBy: []string{}}, Errors: s.errors, Until: s.until}
	if info.Errors == nil {
		info.Errors = []statemachine.ErrorEntry{}
	}
	if s.err != nil {
		info.Errors = append(info.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + s.err.Error()})
	}
	if s.state.Terminal() {
		info.Type, info.Priority, info.SubmittedAt = s.taskType, s.priority, s.submitted
		info.Node, info.Token, info.ClaimedAt, info.Tags = s.node, s.token, s.claimed, s.tags
		info.Status, info.FinishedAt = Status(s.state), s.at
		return info, true
	}
	b.live(&info, t, s, now, blockersMost)
	return info, true
}

func (b *taskIndex) live(info *TaskInfo, t *mirror.Task, s *stateSeen, now time.Time, blockersMost int) {
	unreadable := s.err != nil
	spec := b.spec(t)
	if spec.err != nil {
		unreadable = true
		info.Errors = append(info.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + spec.err.Error()})
	}
	info.Type, info.Priority, info.Weight, info.NotBefore, info.SubmittedAt = spec.taskType, spec.priority, spec.weight, spec.notBefore, spec.submitted
	info.Tags = spec.tags
	info.Failures, info.FailuresMax = spec.retry.Counted(s.errors, s.failures), max(spec.retry.Errors, 0)
	if t.Owned() {
		info.Node, info.Token, info.ClaimedAt = t.Owner, int64(t.Token), b.claimed[t.ID]
		info.Restarts = b.restarts[t.ID]
	}
	if !t.Owned() {
		info.Blocked = blockedBy(depend.Blockers(t.ID, spec.needs), b.tasks, blockersMost)
	}
	switch {
	case unreadable || s.state == statemachine.Fault:
		info.Status = StatusFault
	case s.state == statemachine.Sleeping:
		info.Status = StatusSleeping
	case s.state == statemachine.Paused:
		info.Status = StatusPaused
	case t.Owned() && (t.Created <= t.Token || t.Session == 0):
		info.Status = StatusRunning // otherwise an older run of its ID has not returned yet
	case len(info.BlockedBy) > 0:
		info.Status = StatusBlocked
	default:
		info.Status = StatusPending
	}
}
