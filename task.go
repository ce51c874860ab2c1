package windlass

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/stored"
)

// Task is a unit of work as the application sees it. Windlass needs only its ID; a
// NewTask function may return a richer type.
type Task interface {
	// ID returns the ID of the task.
	ID() string
}

// NewTask turns the ID and the properties of a task into the application's own type.
// Properties may be absent, that is nil. If it returns nil or panics, this node leaves
// the task to others; a panic is reported.
type NewTask func(id string, props json.RawMessage) Task

// plainTask is the Task of nodes without a NewTask.
type plainTask string

// ID implements Task.
func (t plainTask) ID() string { return string(t) }

// Spec describes a submitted task, except for its properties. It is stored as JSON in
// the task's own key; unknown fields there are ignored.
type Spec struct {
	// Type names the handler that runs the task. The empty type is a type like any
	// other.
	Type string `json:"type,omitempty"`
	// Priority orders tasks that could be claimed at the same time: higher first. Zero
	// is the default; the range is PriorityMin to PriorityMax.
	Priority int `json:"priority,omitempty"`
	// NotBefore is the earliest time to start. Zero means at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Needs lists the IDs of the tasks that must be completed or deleted before this
	// one starts; at most NeedsMax. The ID of a job with "|*" after it stands for the job
	// and all jobs below it, at any depth, that are there when this one is claimed. A
	// task that has failed or was killed keeps this one waiting until it is run again or
	// forgotten, unless its OnFailure says otherwise.
	Needs []string `json:"needs,omitempty"`
	// Weight is how much of a node's share and capacity the task takes, relative to
	// other tasks. Zero means 1; the maximum is WeightMax.
	Weight int `json:"weight,omitempty"`
	// Require lists the labels that a node must have to run the task, Prefer the labels
	// that it should have; at most LabelsMax each. The label "zone" matches the node's
	// zone if the node has no label of that name.
	Require map[string]string `json:"require,omitempty"`
	Prefer  map[string]string `json:"prefer,omitempty"`
	// Node pins the task to the node with this name.
	Node string `json:"node,omitempty"`
	// Group spreads tasks: as far as there are enough of them, tasks of one group go to
	// different zones, and within a zone to different nodes.
	Group string `json:"group,omitempty"`
	// Timeout limits each run of the handler. When it is over, the handler's context
	// ends with ErrTimeout, which counts as an error. Zero means no timeout; the
	// maximum is TimeoutMax.
	Timeout Duration `json:"timeout,omitempty"`
	// Retry controls what happens after the task's handler fails; nil means the
	// defaults.
	Retry *Retry `json:"retry,omitempty"`
	// OnFailure says what happens to the tasks that wait for this one when it fails or
	// is killed: "block", the default, "skip" or "run".
	OnFailure OnFailure `json:"on_failure,omitempty"`
	// Job makes the task a job of the tree: its ID is its path and its properties are
	// its data; see package tree.
	Job bool `json:"job,omitempty"`
	// RestartedAt is set by Client.Rerun: a node that held the task then stops its
	// handler and runs the task again. It does not count when two submissions are
	// compared.
	RestartedAt time.Time `json:"restarted_at,omitzero"`
	// Turn is set by the client for a task that was submitted again while it was held.
	// It is the store revision that places the task behind those that were pending by
	// then.
	Turn int64 `json:"turn,omitempty"`
	// SubmittedAt is set by the client that submits.
	SubmittedAt time.Time `json:"submitted_at,omitzero"`
	// Digest identifies what was submitted, properties included. The client sets it; it
	// distinguishes a repeated submission from a different one.
	Digest string `json:"digest,omitempty"`
	// Trace is the trace that the task belongs to, as a W3C traceparent of
	// TraceBytesMax bytes; empty for none. A client with a Tracer replaces it by the
	// submission's own span, whose parent is the given one. Trace does not count when
	// two submissions are compared.
	Trace string `json:"trace,omitempty"`
	// By is set by the client: who submitted the task, or changed or restarted it last
	// (WithCaller); empty if that is not known. It does not count when two submissions are
	// compared.
	By string `json:"by,omitempty"`
	// Tags are attributes for people, by which lists and commands select tasks; see
	// Filter.Tags. They decide nothing, and have nothing to do with the labels of nodes.
	// At most TagsMax, of printable characters; a key is not empty and has no "=".
	Tags map[string]string `json:"tags,omitempty"` // last, as package kind expects
}

// parseSpec parses the value of a task's key. An empty value is an empty spec.
func parseSpec(value []byte) (Spec, error) {
	var spec Spec
	if len(bytes.TrimSpace(value)) == 0 {
		return spec, nil
	}
	if err := json.Unmarshal(value, &spec); err != nil {
		return Spec{}, fmt.Errorf("spec: %w", err)
	}
	return spec, nil
}

// Submission is a task to submit.
type Submission struct {
	// ID of the task: 1 to 512 bytes of printable UTF-8 without a slash, not beginning
	// with an underscore.
	ID string
	// Spec of the task. Submit sets SubmittedAt, RestartedAt, Digest and Turn, and Trace
	// if there is a Tracer.
	Spec Spec
	// Props are the task's properties: any JSON of at most PropsBytesMax, or nil. They are
	// stored byte by byte. An object in them with a name twice is refused, since each
	// reader would take another one of the two.
	Props json.RawMessage
	// Rerun submits the ID afresh if its state is terminal.
	Rerun bool
	// Update changes a live task with this ID to this submission; its state, its turn
	// and, except for a job, its time of submission stay. If a node holds the task, its
	// handler receives the new properties from Claim.Updates, or is stopped with
	// ErrUpdated, and the task runs again as it is now; a leased run (package lease) ends as it began. A job of the tree
	// is not changed while it is held.
	Update bool
	// Requeue makes a task with this ID that is held run again, as submitted now, once
	// it has completed, failed or was killed; its terminal state is never visible. If
	// the task is released or interrupted first, it continues as it was. A later
	// Requeue or an Update replaces this one.
	Requeue bool
	// ended is the revision of the terminal state that a retry replaces, and no other; zero
	// for any other submission.
	ended broker.Revision
	// keepProgress leaves the progress of the earlier run.
	keepProgress bool
	// base is the revision of the task that an Update changes, and no other; zero for
	// any other submission.
	base broker.Revision
}

// Validate returns the error with which Submit would refuse the submission whatever is
// in the store.
func (s Submission) Validate() error {
	if err := keys.CheckTaskID(s.ID); err != nil {
		return err
	}
	if depend.IsTree(s.ID) {
		return badInput("task ID", s.ID, `must not end in "|*", which stands for all jobs below one`)
	}
	if s.Spec.Type != "" {
		if err := keys.CheckType(s.Spec.Type); err != nil {
			return err
		}
	}
	if p := s.Spec.Priority; p < PriorityMin || p > PriorityMax {
		return badInput("priority", p, fmt.Sprintf("must be from %d to %d", PriorityMin, PriorityMax))
	}
	if n := len(s.Props); n > PropsBytesMax {
		return badInput("props", fmt.Sprintf("%d bytes", n), fmt.Sprintf("must be at most %d bytes", PropsBytesMax))
	}
	if len(s.Props) > 0 && !stored.Valid(s.Props) {
		return badInput("props", string(s.Props), "must be valid JSON, in UTF-8")
	}
	if fault := stored.Check(s.Props, nil, stored.Bounds{Depth: PropsDepthMax}); fault != nil {
		limit := fmt.Sprintf("must be nested at most %d deep", PropsDepthMax)
		if fault.What == stored.Twice {
			limit = "must not be there twice"
		}
		return badInput("props", fault.Path, limit)
	}
	if t := s.Spec.Timeout; t < 0 || time.Duration(t) > TimeoutMax {
		return badInput("timeout", time.Duration(t), fmt.Sprintf("must be from 0 to %v", TimeoutMax))
	}
	if err := s.Spec.Retry.validate(); err != nil {
		return err
	}
	if err := s.Spec.validatePlacement(); err != nil {
		return err
	}
	if !slices.Contains([]OnFailure{"", FailureBlocks, FailureSkips, FailureRuns}, s.Spec.OnFailure) {
		return badInput("on_failure", s.Spec.OnFailure, fmt.Sprintf("must be %q, %q or %q", FailureBlocks, FailureSkips, FailureRuns))
	}
	if err := cmp.Or(checkTrace(s.Spec.Trace), checkTags(s.Spec.Tags)); err != nil {
		return err
	}
	if err := s.validateJob(); err != nil {
		return err
	}
	return s.validateNeeds()
}

// validatePlacement checks the fields that decide where a task may run.
func (s Spec) validatePlacement() error {
	if err := checkWeight("weight", s.Weight); err != nil {
		return err
	}
	if s.Node != "" {
		if err := keys.CheckNodeName(s.Node); err != nil {
			return err
		}
	}
	if len(s.Group) > TypeBytesMax {
		return badInput("group", s.Group, fmt.Sprintf("must be at most %d bytes", TypeBytesMax))
	}
	if err := checkLabels("require", s.Require); err != nil {
		return err
	}
	return checkLabels("prefer", s.Prefer)
}

func checkWeight(field string, weight int) error {
	if weight < 0 || weight > WeightMax {
		return badInput(field, weight, fmt.Sprintf("must be from 1 to %d, or 0 for the default of 1", WeightMax))
	}
	return nil
}

func checkLabels(field string, labels map[string]string) error {
	if n := len(labels); n > LabelsMax {
		return badInput(field, fmt.Sprintf("%d labels", n), fmt.Sprintf("must be at most %d", LabelsMax))
	}
	for k, v := range labels {
		if k == "" || len(k) > TypeBytesMax || len(v) > TypeBytesMax {
			return badInput(field, k+"="+v, fmt.Sprintf("a label and its value must be at most %d bytes, and the label not empty", TypeBytesMax))
		}
	}
	return nil
}

// checkTags checks tags in the order of their keys, so that an error is always the same.
func checkTags(tags map[string]string) error {
	if n := len(tags); n > TagsMax {
		return badInput("tags", fmt.Sprintf("%d tags", n), fmt.Sprintf("must be at most %d", TagsMax))
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		switch {
		case key == "" || len(key) > TagKeyBytesMax || strings.Contains(key, "="):
			return badInput("tags", key, fmt.Sprintf("a key must have 1 to %d bytes, and no %q", TagKeyBytesMax, "="))
		case len(value) > TagValueBytesMax:
			return badInput("tags."+key, value, fmt.Sprintf("must be at most %d bytes", TagValueBytesMax))
		case !isPrintable(key) || !isPrintable(value):
			return badInput("tags", key+"="+value, "must be printable, in UTF-8")
		}
	}
	return nil
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (s Submission) validateNeeds() error {
	for _, need := range s.Spec.Needs {
		check, id := keys.CheckTaskID, need
		job, all := depend.Tree(need)
		if all {
			check, id = keys.CheckJobID, job
		}
		if err := check(id); err != nil {
			return badInput("needs", need, err.Error())
		}
		if id == s.ID || all && depend.IsBelow(s.ID, job) {
			return badInput("needs", need, "a task cannot need itself")
		}
	}
	if n := len(s.Spec.Needs); n > NeedsMax {
		return badInput("needs", fmt.Sprintf("%d tasks", n), fmt.Sprintf("must be at most %d", NeedsMax))
	}
	if n := s.Spec.needsBytes() + len(s.Props); n > InputBytesMax {
		return badInput("needs", fmt.Sprintf("%d bytes with the props", n), fmt.Sprintf("must be at most %d bytes together", InputBytesMax))
	}
	return nil
}

// needsBytes returns the size of the needs as JSON.
func (s Spec) needsBytes() int {
	if len(s.Needs) == 0 {
		return 0
	}
	value, _ := json.Marshal(s.Needs) // strings, which cannot fail
	return len(value)
}

// digest identifies the submission by all its content except its times, its turn and its
// trace.
func (s Submission) digest() string {
	d := digests.Get().(*digest)
	defer digests.Put(d)
	d.text.Reset()
	d.spec = s.Spec
	d.spec.SubmittedAt, d.spec.RestartedAt, d.spec.Digest, d.spec.Turn, d.spec.Trace, d.spec.By = time.Time{}, time.Time{}, "", 0, "", ""
	d.spec.Needs = slices.Clone(s.Spec.Needs)
	slices.Sort(d.spec.Needs)
	_ = json.NewEncoder(&d.text).Encode(&d.spec) // cannot fail on a submission that validated
	if json.Compact(&d.text, s.Props) != nil {   // spacing makes no difference
		d.text.Write(s.Props) // stored by hand
	}
	d.spec = Spec{}
	sum := sha256.Sum256(d.text.Bytes())
	return hex.EncodeToString(sum[:12])
}

// digest is what a digest is made of. Many are made at once.
type digest struct {
	spec Spec
	text bytes.Buffer
}

var digests = sync.Pool{New: func() any { return &digest{} }}

// OnFailure is the effect of a task's failure on the tasks that wait for it.
type OnFailure string

// The policies.
const (
	// FailureBlocks: they keep waiting until the task is run again, or forgotten by
	// "task prune --unblock".
	FailureBlocks OnFailure = "block"
	// FailureSkips: they are killed, and the reason is recorded.
	FailureSkips OnFailure = "skip"
	// FailureRuns: they run, as if the task had been completed.
	FailureRuns OnFailure = "run"
)
