package mirror

import (
	"encoding/json"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
)

// Task is what a node knows of a task that is not done.
type Task struct {
	// ID of the task.
	ID string
	// Kind is the result of Keep.Kind for the spec, nil if the task has no key of its
	// own. If Keep.Kind is not set, it is the spec: see Spec.
	Kind any
	// HasKey is true if the task's own key exists, HasProps if its properties do.
	// Invariant: one of them is true, because a task exists by either.
	HasKey, HasProps bool
	// Failed says whether the last task with this ID has failed or was killed, and the
	// effect on those that wait for it.
	Failed Failure
	// Created is the revision at which its own key was created, or its properties if it
	// has no key; zero for the remains of a task.
	Created broker.Revision
	// Owner is the node that holds the claim. It is empty without a claim, and if the
	// owner key is not readable.
	Owner string
	// Token is the revision at which the claim was granted, zero without one.
	Token broker.Revision
	// Session is the session that the claim belongs to.
	Session broker.SessionID
	// Last is the node that held it last, as far as this copy saw the end of that
	// claim, or a note says so because that node is to be back.
	Last string
	// For is the node that it was released for, or that its holder is about to release
	// it for; empty for any node.
	For string

	// keyCreated and propsCreated are the revisions from which Created is computed;
	// keyModified is that of Spec.
	keyCreated, keyModified, propsCreated broker.Revision
	// props is nil unless the copy keeps properties: most do not.
	props *[]byte
}

// Spec returns the value of the task's own key, nil if it has none or if Kind is kept
// instead.
func (t *Task) Spec() []byte {
	spec, _ := t.Kind.([]byte)
	return spec
}

// Props returns the properties, kept only if the mirror was told to.
func (t *Task) Props() []byte {
	if t.props == nil {
		return nil
	}
	return *t.props
}

// Failure is the effect of a task's end on the tasks that wait for it.
type Failure uint8

// The kinds of failures.
const (
	// NotFailed: nothing.
	NotFailed Failure = iota
	// FailedBlocks: they keep waiting.
	FailedBlocks
	// FailedSkips: they are to be killed.
	FailedSkips
)

// Exists reports whether the task exists. It is false for the remains of one, such as
// an owner key whose task was deleted by hand.
func (t *Task) Exists() bool { return t.HasKey || t.HasProps }

// Skips reports whether the task is gone and has left a failure for which those that
// wait for it are to be killed. A task of which nothing is known, nil, has not.
func (t *Task) Skips() bool { return t != nil && t.Failed == FailedSkips && !t.HasKey }

// Blocks reports whether a task, or what is left of it, blocks those that wait for it. A
// task of which nothing is known, nil, does not.
func (t *Task) Blocks() bool { return t != nil && (t.HasKey || t.Failed != NotFailed) }

// CreatedAs returns the revision at which the task's own key was created, or its
// properties if propsOnly; zero if that does not exist. It distinguishes a task from
// another that was submitted under its ID later.
func (t *Task) CreatedAs(propsOnly bool) broker.Revision {
	switch {
	case propsOnly && t.HasProps:
		return t.propsCreated
	case !propsOnly && t.HasKey:
		return t.keyCreated
	}
	return 0
}

// Modified returns the revision of the last change of the task's own key, zero if it
// has none.
func (t *Task) Modified() broker.Revision { return t.keyModified }

// Owned reports whether a node holds the claim.
func (t *Task) Owned() bool { return t.Token != 0 }

// Tasks is the copy of tasks/. It is not safe for concurrent use.
type Tasks struct {
	space    keys.Space
	keep     Keep
	revision broker.Revision
	tasks    map[string]*Task
	// owned counts the existing tasks by owner, below those that block others by each job
	// above them.
	owned, below map[string]int
	// failedAt has the revisions at which failures were marked.
	failedAt map[string]broker.Revision
	// handovers has the handover notes, by task. There are few. kept counts those that name
	// who held the task last, by that node.
	handovers map[string]handover
	kept      map[string]int
	// ends has how the last claims ended of tasks that nobody holds.
	ends map[string]End
	// sums is the result of Sums.
	sums Sums
	// names caches the name in an owner key by its value: there are few names and many
	// owner keys.
	names map[string]string
}

// handover is the note of a task's intended node, empty if it is not readable, and the
// revision at which it was written. last is set if the note names the node that held the
// task last.
type handover struct {
	node string
	at   broker.Revision
	last bool
}

// Keep says what a copy keeps of each task. The zero value keeps the spec as it is.
type Keep struct {
	// Props keeps the properties.
	Props bool
	// Kind, if set, makes the value to keep of a spec; it is not modified afterwards.
	Kind func(spec []byte) any
	// Count, if set, is called with the change of the number of tasks of a kind that a
	// node holds.
	Count func(t *Task, by int)
	// Recount, if set, is called before all tasks are counted again.
	Recount func()
	// Ended, if set, is called with each claim that a watch shows to end.
	Ended func(Ended)
	// Mine is the session whose claims Sums covers.
	Mine broker.SessionID
	// Skips, if set, reports whether a failure mark says that the waiting tasks are to
	// be killed.
	Skips func(mark []byte) bool
}

// Ended is a claim that has ended.
type Ended struct {
	// Task is the ID of the task, which may be gone as well.
	Task string
	// Token and Session are those of the claim.
	Token   broker.Revision
	Session broker.SessionID
	// At is the revision of its end.
	At broker.Revision
}

// End is the end of a claim that somebody has seen.
type End struct {
	// Node held the task under the token.
	Node  string
	Token broker.Revision
	// At is when it was seen. Late is true if the node that saw it may have come long after its
	// holder had died.
	At   time.Time
	Late bool
	// Process is what has died that ran its work, while the node went on; empty if none has.
	Process string
}

// Sums summarize a copy, for comparison with the expected contents without looking at
// every task.
type Sums struct {
	// Unowned counts the existing tasks that no node holds, Owned those that a node
	// holds, Remnants the claims without a task.
	Unowned, Owned, Remnants int
	// Claims combines ClaimSum of all claims of Keep.Mine by exclusive or.
	Claims uint64
}

var claimSeed = maphash.MakeSeed()

// ClaimSum returns a number for a claim, valid in this process, from the task's ID and
// the revisions at which the task was created and the claim was granted.
func ClaimSum(id string, created, token broker.Revision) uint64 {
	return maphash.Comparable(claimSeed, struct {
		id             string
		created, token broker.Revision
	}{id, created, token})
}

// NewTasks returns an empty copy.
func NewTasks(space keys.Space, keep Keep) *Tasks {
	return &Tasks{space: space, keep: keep, tasks: map[string]*Task{}, owned: map[string]int{}, below: map[string]int{},
		failedAt: map[string]broker.Revision{}, handovers: map[string]handover{}, kept: map[string]int{}, ends: map[string]End{}, names: map[string]string{}}
}

// Strip drops the values that the copy does not keep; for Source.
func (m *Tasks) Strip(kv *broker.KV) {
	if !m.keep.Props && strings.HasSuffix(kv.Key, "/props") {
		kv.Value = nil
	}
}

// Revision returns the revision up to which the copy is complete, zero before the first
// snapshot.
func (m *Tasks) Revision() broker.Revision { return m.revision }

// Get returns a task, or nil. The result must not be kept across updates.
func (m *Tasks) Get(id string) *Task {
	if t := m.tasks[id]; t != nil && t.Exists() {
		return t
	}
	return nil
}

// Remains returns whatever is known below a task's ID, including an owner key without a
// task; nil if nothing is.
func (m *Tasks) Remains(id string) *Task { return m.tasks[id] }

// All yields every existing task, in no particular order.
func (m *Tasks) All() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, t := range m.tasks {
			if t.Exists() && !yield(t) {
				return
			}
		}
	}
}

// Remnants yields every claim without a task, in no particular order.
func (m *Tasks) Remnants() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, t := range m.tasks {
			if !t.Exists() && t.Owned() && !yield(t) {
				return
			}
		}
	}
}

// End returns the end of the last claim of a task, if a watch has shown that and nobody holds the
// task since; otherwise a claim without a token.
func (m *Tasks) End(id string) End { return m.ends[id] }

// Sums returns the summary of the copy.
func (m *Tasks) Sums() Sums { return m.sums }

// Owned returns the number of existing tasks that a node holds.
func (m *Tasks) Owned(node string) int { return m.owned[node] }

// Apply applies a batch of a watch and returns the IDs of the tasks it changed, each
// once.
func (m *Tasks) Apply(batch broker.Batch) []string {
	var changed []string
	last := ""
	for _, e := range batch.Events {
		id, ok := m.event(e)
		if ok && id != last {
			changed, last = append(changed, id), id
		}
	}
	m.revision = max(m.revision, batch.Revision)
	return dedupe(changed)
}

// Prepare parses a snapshot for Reset, in any goroutine: with very many tasks this
// takes longer than the caller of Reset may be delayed.
func (m *Tasks) Prepare(snapshot *Snapshot) { snapshot.tasks = m.read(snapshot.KVs) }

// read builds a copy of a listing and calls no counters.
func (m *Tasks) read(kvs []broker.KV) *Tasks {
	keep := m.keep
	keep.Count, keep.Recount = nil, nil
	next := NewTasks(m.space, keep)
	for _, kv := range kvs {
		next.event(broker.Event{KV: kv})
	}
	return next
}

// Reset replaces the copy by a snapshot and returns the IDs of the tasks that differ
// from the copy before, each once.
func (m *Tasks) Reset(snapshot *Snapshot) []string {
	next := snapshot.tasks
	if next == nil {
		next = m.read(snapshot.KVs)
	}
	before := m.tasks
	m.tasks, m.owned, m.failedAt, m.handovers = next.tasks, next.owned, next.failedAt, next.handovers
	m.sums, m.names, m.below, m.kept = next.sums, next.names, next.below, next.kept
	m.revision = snapshot.Revision
	maps.DeleteFunc(m.ends, func(id string, _ End) bool { t := m.tasks[id]; return t == nil || !t.Exists() || t.Owned() })
	var changed []string
	known := 0
	for id, now := range m.tasks {
		was := before[id]
		if was != nil {
			known++
		}
		if was == nil || !same(was, now) {
			changed = append(changed, id)
		}
		if was != nil && !now.Owned() {
			switch { // a note is newer than what was seen before
			case now.Last != "":
			case was.Owned():
				now.Last = was.Owner
			default:
				now.Last = was.Last
			}
		}
	}
	if known < len(before) {
		for id := range before {
			if m.tasks[id] == nil {
				changed = append(changed, id)
			}
		}
	}
	if len(changed) > 0 {
		m.recount()
	}
	return changed
}

// recount reports all tasks again to Keep.Count.
func (m *Tasks) recount() {
	if m.keep.Recount != nil {
		m.keep.Recount()
	}
	for _, t := range m.tasks {
		if m.keep.Count != nil && t.Exists() && t.Owned() {
			m.keep.Count(t, 1)
		}
	}
}

// same compares the revisions and flags of two tasks, which identify their contents: a
// value never changes without its revision, and properties never without Created.
func same(a, b *Task) bool {
	return a.Created == b.Created && a.Token == b.Token && a.HasKey == b.HasKey && a.HasProps == b.HasProps &&
		a.keyModified == b.keyModified && a.For == b.For && a.Failed == b.Failed
}

func (m *Tasks) event(e broker.Event) (id string, ok bool) {
	p := m.space.Parse(e.KV.Key)
	switch p.Kind {
	case keys.Task, keys.Props, keys.Owner, keys.Handover, keys.Failed:
	default:
		return "", false
	}
	t := m.tasks[p.Name]
	if t == nil {
		if e.Deleted {
			return "", false
		}
		t = &Task{ID: p.Name}
		m.tasks[p.Name] = t
	}
	blocked := t.Blocks()
	m.count(t, -1)
	m.set(t, p.Kind, e)
	m.count(t, +1)
	if blocks := t.Blocks(); blocks && !blocked {
		m.countBelow(t.ID, +1)
	} else if blocked && !blocks {
		m.countBelow(t.ID, -1)
	}
	if !t.Exists() {
		delete(m.ends, p.Name) // a failed one is remembered for long, and nobody claims it
	}
	if !t.Exists() && !t.Owned() && !m.HasNote(t.ID) && t.Failed == NotFailed {
		delete(m.tasks, p.Name)
	}
	return p.Name, true
}

// countBelow counts a task for the jobs above it. Most tasks have none.
func (m *Tasks) countBelow(id string, by int) {
	for _, job := range depend.Ancestors(id) {
		if m.below[job] += by; m.below[job] == 0 {
			delete(m.below, job)
		}
	}
}

func (m *Tasks) count(t *Task, by int) {
	switch {
	case t.Exists() && !t.Owned():
		m.sums.Unowned += by
	case !t.Exists() && t.Owned():
		m.sums.Remnants += by
	}
	if t.Owned() && t.Session == m.keep.Mine {
		m.sums.Claims ^= ClaimSum(t.ID, t.Created, t.Token)
	}
	if !t.Exists() || !t.Owned() {
		return
	}
	m.sums.Owned += by
	if m.owned[t.Owner] += by; m.owned[t.Owner] == 0 {
		delete(m.owned, t.Owner)
	}
	if m.keep.Count != nil {
		m.keep.Count(t, by)
	}
}

func (m *Tasks) set(t *Task, kind keys.Kind, e broker.Event) {
	switch kind {
	case keys.Task:
		t.HasKey, t.keyCreated, t.keyModified, t.Kind = !e.Deleted, e.KV.Created, e.KV.Modified, nil
		switch {
		case e.Deleted:
			t.keyModified = 0 // not the revision of the deletion
		case m.keep.Kind == nil:
			t.Kind = e.KV.Value
		default:
			t.Kind = m.keep.Kind(e.KV.Value)
		}
	case keys.Props:
		t.HasProps, t.props, t.propsCreated = !e.Deleted, nil, e.KV.Created
		if m.keep.Props && !e.Deleted {
			props := e.KV.Value
			t.props = &props
		}
	case keys.Owner:
		if t.Owned() {
			t.Last = t.Owner
			m.ends[t.ID] = End{Node: t.Owner, Token: t.Token, At: time.Now()}
			if e.Deleted && m.keep.Ended != nil {
				m.keep.Ended(Ended{Task: t.ID, Token: t.Token, Session: t.Session, At: e.KV.Modified})
			}
		}
		t.Owner, t.Token, t.Session = "", 0, 0
		if !e.Deleted {
			delete(m.ends, t.ID)
			t.Owner, t.Token, t.Session = m.ownerName(e.KV.Value), e.KV.Created, e.KV.Session
		}
	case keys.Failed:
		t.Failed = m.failure(t.ID, e)
	case keys.Handover:
		if old := m.handovers[t.ID]; old.last {
			m.countKept(old.node, -1)
		}
		if delete(m.handovers, t.ID); !e.Deleted {
			h := handover{node: m.ownerName(e.KV.Value), at: e.KV.Modified, last: e.KV.Session == 0}
			if m.handovers[t.ID] = h; h.last {
				m.countKept(h.node, +1)
			}
			if h.last && !t.Owned() {
				t.Last = h.node
			}
		}
	}
	// A claim can be in progress while another node holds the task and releases it. The
	// claim leaves that note behind, so a note older than the claim means nothing.
	t.For = ""
	if h := m.handovers[t.ID]; h.at > t.Token && !h.last {
		t.For = h.node
	}
	t.Created = t.keyCreated
	if !t.HasKey {
		t.Created = t.propsCreated
	}
}

// HasNote reports whether a task has a handover note, however old and readable or not.
func (m *Tasks) HasNote(id string) bool {
	_, exists := m.handovers[id]
	return exists
}

func (m *Tasks) countKept(node string, by int) {
	if m.kept[node] += by; m.kept[node] == 0 {
		delete(m.kept, node)
	}
}

// Kept returns how many tasks have a note that the node held them last and is to be back.
func (m *Tasks) Kept(node string) int { return m.kept[node] }

// FailedAt returns the revision at which a failure was marked, zero if there is none.
func (m *Tasks) FailedAt(id string) broker.Revision { return m.failedAt[id] }

// Below returns how many of the tasks below a job block those that wait for them.
func (m *Tasks) Below(job string) int { return m.below[job] }

// FailedBelow returns the tasks below a job that have left a failure mark, sorted.
func (m *Tasks) FailedBelow(job string) (failed []string) {
	if m.below[job] == 0 {
		return nil
	}
	for id := range m.failedAt {
		if depend.IsBelow(id, job) {
			failed = append(failed, id)
		}
	}
	slices.Sort(failed)
	return failed
}

// failure parses a failure mark.
func (m *Tasks) failure(id string, e broker.Event) Failure {
	if delete(m.failedAt, id); e.Deleted {
		return NotFailed
	}
	m.failedAt[id] = e.KV.Modified
	if m.keep.Skips != nil && m.keep.Skips(e.KV.Value) {
		return FailedSkips
	}
	return FailedBlocks
}

// namesMax limits the names that are cached.
const namesMax = 4096

func (m *Tasks) ownerName(value []byte) string {
	if name, ok := m.names[string(value)]; ok {
		return name
	}
	name := ParseOwner(value)
	if len(m.names) < namesMax {
		m.names[string(value)] = name
	}
	return name
}

// ParseOwner parses an owner key: JSON, or the plain name of the oldest layout. It
// returns an empty text for a value that is neither.
func ParseOwner(value []byte) string {
	name := strings.TrimSpace(string(value))
	if len(value) > 0 && value[0] == '{' {
		var owner struct {
			Node string `json:"node"`
		}
		if json.Unmarshal(value, &owner) != nil {
			return ""
		}
		name = owner.Node
	}
	if keys.CheckNodeName(name) != nil {
		return ""
	}
	return name
}

func dedupe(ids []string) []string {
	if len(ids) < 2 {
		return ids
	}
	seen := make(map[string]struct{}, len(ids))
	kept := ids[:0]
	for _, id := range ids {
		if _, dup := seen[id]; !dup {
			seen[id] = struct{}{}
			kept = append(kept, id)
		}
	}
	return kept
}

// CreatedAt returns the revision at which a task was created, zero if it is gone.
func (m *Tasks) CreatedAt(id string) broker.Revision {
	if task := m.Get(id); task != nil {
		return task.Created
	}
	return 0
}
