package windlass

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/stored"
)

// Task is a unit of work as the application sees it. Its ID is all that
// Windlass needs to know; a NewTask function may return a richer type.
type Task interface {
	// ID of the task.
	ID() string
}

// NewTask turns the ID and the properties of a task into the application's own
// type. Properties may be absent, that is nil. Returning nil makes this node
// leave the task to others; so does a panic, which is reported.
type NewTask func(id string, props json.RawMessage) Task

// plainTask is the Task of those who do not need their own.
type plainTask string

// ID implements Task.
func (t plainTask) ID() string { return string(t) }

// Spec is what a task is submitted with, beside its properties. It is stored
// as JSON in the task's own key; unknown fields there are ignored.
type Spec struct {
	// Type names the handler that runs the task. Empty is a type like others.
	Type string `json:"type,omitempty"`
	// Priority orders tasks that could be claimed at the same time: higher
	// first. Zero is the default; PriorityMin to PriorityMax.
	Priority int `json:"priority,omitempty"`
	// NotBefore is the earliest time to start. Zero means at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	// Needs are the IDs of tasks that must not exist any more, be it completed or
	// deleted, before this one starts; at most NeedsMax. One that has failed or was
	// killed keeps this one waiting until it is run again or forgotten, unless its
	// OnFailure says otherwise.
	Needs []string `json:"needs,omitempty"`
	// Weight is how much of a node's share and capacity the task takes, beside
	// other tasks. Zero counts as 1; at most WeightMax.
	Weight int `json:"weight,omitempty"`
	// Require are labels that a node must have to run the task, Prefer labels
	// that it had better have; at most LabelsMax each. The label "zone" stands
	// for the node's zone where it has no label of that name.
	Require map[string]string `json:"require,omitempty"`
	Prefer  map[string]string `json:"prefer,omitempty"`
	// Node pins the task to the node of that name.
	Node string `json:"node,omitempty"`
	// Group spreads the task: as far as there are enough, tasks of one group go
	// to different zones, and within a zone to different nodes.
	Group string `json:"group,omitempty"`
	// Timeout bounds each run of the handler: then its context ends with
	// ErrTimeout, which counts as an error. Zero means none; at most TimeoutMax.
	Timeout Duration `json:"timeout,omitempty"`
	// Retry says what becomes of the task when its handler fails; nil stands for
	// the defaults.
	Retry *Retry `json:"retry,omitempty"`
	// OnFailure is what the end of the task is for those that wait for it when it
	// fails or is killed: "block", the default, "skip" or "run".
	OnFailure OnFailure `json:"on_failure,omitempty"`
	// Job makes the task a job of the tree: its ID is its path and its properties
	// are its data; see package tree.
	Job bool `json:"job,omitempty"`
	// Turn is set by the client: the revision of the store that gives a task which
	// was submitted again while it was held its place among others, after those
	// that were pending by then.
	Turn int64 `json:"turn,omitempty"`
	// SubmittedAt is set by the client that submits.
	SubmittedAt time.Time `json:"submitted_at,omitzero"`
	// Digest identifies what was submitted, properties included; it is set by
	// the client, and tells a repeated submission from a different one.
	Digest string `json:"digest,omitempty"`
	// Trace is the trace that the task belongs to, as a W3C traceparent of
	// TraceBytesMax bytes; empty for none. A client with a Tracer sets it to the
	// submission's own span, below what it says. It is no part of what makes two
	// submissions the same.
	Trace string `json:"trace,omitempty"`
}

// parseSpec reads the value of a task's key. An empty one is an empty spec.
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

// Submission is a task to be submitted.
type Submission struct {
	// ID of the task: 1 to 512 bytes of printable UTF-8 without a slash, not
	// beginning with an underscore.
	ID string
	// Spec of the task; SubmittedAt, Digest and Turn are set by Submit, and
	// Trace is where there is a Tracer.
	Spec Spec
	// Props are the task's properties: any JSON of at most PropsBytesMax, or
	// nil. They do not change while the task lives.
	Props json.RawMessage
	// Rerun submits afresh an ID whose state is terminal.
	Rerun bool
	// Update changes a pending task of this ID to what is submitted; its state and
	// its turn stay.
	Update bool
	// Requeue has a task of this ID that is held run again, as submitted now, once
	// it has completed, failed or was killed; nobody ever sees it so. One that is
	// released or interrupted first goes on as it was. A later one takes the place
	// of this, and so does an Update.
	Requeue bool
}

// nesting is how deep valid JSON is nested.
func nesting(value []byte) (most int) {
	depth, inText := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return most
}

// Validate refuses what Submit would refuse whatever is in the store.
func (s Submission) Validate() error {
	if err := keys.CheckTaskID(s.ID); err != nil {
		return badName(err)
	}
	if s.Spec.Type != "" {
		if err := checkType(s.Spec.Type); err != nil {
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
	if n := nesting(s.Props); n > PropsDepthMax {
		return badInput("props", fmt.Sprintf("nested %d deep", n), fmt.Sprintf("must be nested at most %d deep", PropsDepthMax))
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
	if err := checkTrace(s.Spec.Trace); err != nil {
		return err
	}
	if err := s.validateJob(); err != nil {
		return err
	}
	return s.validateNeeds()
}

// validatePlacement checks what says where a task may run.
func (s Spec) validatePlacement() error {
	if err := checkWeight("weight", s.Weight); err != nil {
		return err
	}
	if s.Node != "" {
		if err := keys.CheckNodeName(s.Node); err != nil {
			return badName(err)
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

func (s Submission) validateNeeds() error {
	for _, need := range s.Spec.Needs {
		if err := keys.CheckTaskID(need); err != nil {
			return badInput("needs", need, err.Error())
		}
		if need == s.ID {
			return badInput("needs", need, "a task cannot need itself")
		}
	}
	if n := len(depend.Blockers(s.ID, s.Spec.Needs)); n > NeedsMax {
		return badInput("needs", fmt.Sprintf("%d tasks", n),
			fmt.Sprintf("ancestors and needs together must be at most %d", NeedsMax))
	}
	return nil
}

func checkType(name string) error {
	if len(name) > TypeBytesMax {
		return badInput("type", name, fmt.Sprintf("must be at most %d bytes", TypeBytesMax))
	}
	if keys.CheckTaskID(name) != nil || name == AnyType {
		return badInput("type", name, `must be printable, without a slash, and not "*"`)
	}
	return nil
}

// digest identifies the submission by everything but when it was made, and in
// which trace.
func (s Submission) digest() string {
	h := sha256.New()
	spec := s.Spec
	spec.SubmittedAt, spec.Digest, spec.Turn, spec.Trace = time.Time{}, "", 0, ""
	spec.Needs = slices.Clone(spec.Needs)
	slices.Sort(spec.Needs)
	// Compact makes the digest independent of spacing in the properties; both
	// steps cannot fail on a submission that validated.
	var props bytes.Buffer
	_ = json.Compact(&props, s.Props)
	_ = json.NewEncoder(h).Encode(spec)
	h.Write(props.Bytes())
	return hex.EncodeToString(h.Sum(nil)[:12])
}
