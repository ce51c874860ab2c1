package view

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// Spec is what a task, or a job, can be given besides its name, type and
// properties. Its JSON is stable.
type Spec struct {
	Priority  int       `json:"priority,omitempty" doc:"higher is claimed first, from -1000 to 1000"`
	NotBefore time.Time `json:"not_before,omitzero" doc:"earliest time to start"`
	Needs     []string  `json:"needs,omitempty" doc:"tasks that must be done before this one starts"`

	Weight  int               `json:"weight,omitempty" doc:"how much of a node's share and capacity it takes, 1 to 1000; default 1"`
	Require map[string]string `json:"require,omitempty" doc:"labels that a node must have"`
	Prefer  map[string]string `json:"prefer,omitempty" doc:"labels that a node had better have"`
	Node    string            `json:"node,omitempty" doc:"the only node that may run it"`
	Group   string            `json:"group,omitempty" doc:"tasks of one group go to different zones and nodes, as far as there are enough"`

	Timeout   windlass.Duration  `json:"timeout,omitempty" doc:"bound on each run"`
	Retry     *windlass.Retry    `json:"retry,omitempty" doc:"what becomes of it when it fails"`
	OnFailure windlass.OnFailure `json:"on_failure,omitempty" doc:"what its failure is for those that wait for it"`

	Trace string `json:"trace,omitempty" doc:"the W3C traceparent that it belongs to"`
}

// Of is the spec of a task of a type.
func (s Spec) Of(taskType string) windlass.Spec {
	return windlass.Spec{
		Type: taskType, Priority: s.Priority, NotBefore: s.NotBefore, Needs: s.Needs,
		Weight: s.Weight, Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
		Timeout: s.Timeout, Retry: s.Retry, OnFailure: s.OnFailure, Trace: s.Trace,
	}
}

// Submission is a task to be submitted: a line of a file, or the body of a
// request. Its JSON is stable.
type Submission struct {
	ID    string          `json:"id" doc:"of the task: 1 to 512 bytes of printable UTF-8 without a slash"`
	Type  string          `json:"type,omitempty" doc:"names the handler that runs it"`
	Props json.RawMessage `json:"props,omitempty" doc:"properties: any JSON"`
	Rerun bool            `json:"rerun,omitempty" doc:"run it afresh if it has ended"`
	Spec
}

// Task is what is submitted. Properties that are null are none.
func (s Submission) Task() windlass.Submission {
	return windlass.Submission{ID: s.ID, Props: notNull(s.Props), Rerun: s.Rerun, Spec: s.Of(s.Type)}
}

func notNull(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}

// ErrorsShownMax bounds the errors that a summary lists.
const ErrorsShownMax = 10

// Submitted is what became of submissions. Its JSON is stable.
type Submitted struct {
	Submitted int `json:"submitted" doc:"how many there are now that were not there before"`
	Existed   int `json:"existed" doc:"how many had been submitted before, the same in everything"`
	Failed    int `json:"failed"`
	// Errors are the first ErrorsShownMax.
	Errors []string `json:"errors" doc:"the first ten of them"`
}

// Task is all that is known of a task but its history. Its JSON is stable.
type Task struct {
	windlass.TaskDetail
	// Progress is what its handler saved last.
	Progress json.RawMessage `json:"progress"`
}

// Order is a command to a task and what became of it. Its JSON is stable.
type Order struct {
	ID      string               `json:"id"`
	Message statemachine.Message `json:"message"`
	// Result is one of the results below.
	Result string `json:"result" enum:"sent,done,failed"`
	// Status is the task's once the command was carried out.
	Status windlass.Status `json:"status,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// The results of an order.
const (
	// ResultSent: nobody has waited for it to be carried out, or not long enough.
	ResultSent = "sent"
	// ResultDone: it was carried out.
	ResultDone = "done"
	// ResultFailed: it was not sent, or not carried out.
	ResultFailed = "failed"
)

// Preview is what a command would concern. Its JSON is stable, and has all IDs.
type Preview struct {
	Tasks int      `json:"tasks"`
	IDs   []string `json:"ids"`
}

// PreviewOf are the tasks of these IDs.
func PreviewOf(ids []string) Preview {
	if ids == nil {
		ids = []string{}
	}
	return Preview{Tasks: len(ids), IDs: ids}
}

// Pruned is what was forgotten, or would be. Its JSON is stable.
type Pruned struct {
	Forgotten int `json:"forgotten"`
	Kept      int `json:"kept"`
	// Blocking is how many of these stay only because live tasks wait for them.
	Blocking int  `json:"blocking"`
	DryRun   bool `json:"dry_run"`
	// IDs of the tasks that were, or would be.
	IDs []string `json:"ids"`
}

// PrunedOf is what Client.Prune said.
func PrunedOf(p windlass.Pruned, dryRun bool) Pruned {
	return Pruned{Forgotten: len(p.IDs), Kept: p.Kept, Blocking: p.Blocking, DryRun: dryRun, IDs: PreviewOf(p.IDs).IDs}
}

// The statuses of tasks that have not ended, and of those that have.
var Live, Ended = split(windlass.Statuses)

func split(statuses []windlass.Status) (live, ended []windlass.Status) {
	for _, s := range statuses {
		if statemachine.State(s).Terminal() {
			ended = append(ended, s)
		} else {
			live = append(live, s)
		}
	}
	return live, ended
}
