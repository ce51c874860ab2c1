package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/statemachine"
)

// Spec has the options of a task or a job. Its JSON is stable.
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

	Trace string            `json:"trace,omitempty" doc:"the W3C traceparent that it belongs to"`
	Tags  map[string]string `json:"tags,omitempty" doc:"free attributes by which lists and commands select tasks; they decide nothing"`
}

// Of returns the spec of a task of a type.
func (s Spec) Of(taskType string) windlass.Spec {
	return windlass.Spec{
		Type: taskType, Priority: s.Priority, NotBefore: s.NotBefore, Needs: s.Needs,
		Weight: s.Weight, Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
		Timeout: s.Timeout, Retry: s.Retry, OnFailure: s.OnFailure, Trace: s.Trace, Tags: s.Tags,
	}
}

// TagFilter reads which tags tasks must have, each as key=value, or as a key whose value
// does not matter. field names where they were given.
func TagFilter(field string, texts []string) (map[string]string, error) {
	tags, err := tagsOf(field, texts)
	if err != nil {
		return nil, err
	}
	return tags, CheckTagFilter(field, tags)
}

func tagsOf(field string, texts []string) (map[string]string, error) {
	tags := make(map[string]string, len(texts))
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		if _, twice := tags[key]; twice {
			return nil, &windlass.BadInputError{Field: field, Value: text, Limit: "a key must be given once, as a task has one value of each"}
		}
		tags[key] = value
	}
	return tags, nil
}

// CheckTagFilter refuses tags that no task can have all: a list looks for each in every task.
func CheckTagFilter(field string, tags map[string]string) error {
	bad := func(value, limit string) error {
		return &windlass.BadInputError{Field: field, Value: value, Limit: limit}
	}
	if n := len(tags); n > windlass.TagsMax {
		return bad(fmt.Sprintf("%d tags", n), fmt.Sprintf("must be at most %d, as many as a task has", windlass.TagsMax))
	}
	for key, value := range tags {
		given := strings.TrimSuffix(key+"="+value, "=")
		switch {
		case key == "":
			return bad(given, "must be like key=value, or a key alone")
		case len(key) > windlass.TagKeyBytesMax || len(value) > windlass.TagValueBytesMax:
			return bad(given, fmt.Sprintf("a key has at most %d bytes, and its value %d", windlass.TagKeyBytesMax, windlass.TagValueBytesMax))
		}
	}
	return nil
}

// ParseTags reads the tags of a task, each as key=value.
func ParseTags(field string, texts []string) (map[string]string, error) {
	for _, text := range texts {
		if !strings.Contains(text, "=") {
			return nil, &windlass.BadInputError{Field: field, Value: text, Limit: "must be like key=value"}
		}
	}
	return tagsOf(field, texts) // the library checks them
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

// Task returns what is submitted. Properties that are null are none.
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

// Submitted is the outcome of submissions. Its JSON is stable.
type Submitted struct {
	Submitted int `json:"submitted" doc:"how many there are now that were not there before"`
	Existed   int `json:"existed" doc:"how many had been submitted before, the same in everything"`
	Failed    int `json:"failed"`
	// Errors are the first ErrorsShownMax.
	Errors []string `json:"errors" doc:"the first ten of them"`
	// Warnings are the doubts about them, which the command line has.
	Warnings []string `json:"warnings,omitempty" doc:"what is probably not meant"`
}

// SubmittedOf sums up what windlass.Client.SubmitAll returns. The first error is the cause of
// others, if there are such.
func SubmittedOf(errs []error) (sum Submitted, first error) {
	for _, err := range errs {
		switch {
		case err == nil:
			sum.Submitted++
		case windlass.AlreadySubmitted(err):
			sum.Existed++
		default:
			sum.Failed++
		}
	}
	failed := CausesFirst(slices.DeleteFunc(slices.Clone(errs), windlass.AlreadySubmitted))
	if sum.Errors = ErrorsShown(failed); len(failed) > 0 {
		first = failed[0]
	}
	return sum, first
}

// CausesFirst returns the errors of a call without nil. Those of tasks that were refused
// because of others come after those of the others.
func CausesFirst(errs []error) []error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	slices.SortStableFunc(failed, func(a, b error) int { return cmp.Compare(follows(a), follows(b)) })
	return failed
}

func follows(err error) int {
	if errors.Is(err, windlass.ErrUnmetNeed) {
		return 1
	}
	return 0
}

// ErrorsShown are the texts of the first errors, [] in JSON for none.
func ErrorsShown(errs []error) []string {
	shown := []string{}
	for _, err := range errs[:min(len(errs), ErrorsShownMax)] {
		shown = append(shown, err.Error())
	}
	return shown
}

// CheckNeeds refuses tasks that are to be submitted together if one of them would wait for
// itself. It returns the index of such a task.
func CheckNeeds(tasks []windlass.Submission) (index int, err error) {
	waits := map[string][]string{}
	for _, t := range tasks {
		if needs := depend.Blockers(t.ID, t.Spec.Needs); len(needs) > 0 {
			waits[t.ID] = append(waits[t.ID], needs...)
		}
	}
	depend.AddTrees(waits)
	path := depend.AnyCycle(waits)
	if path == nil {
		return 0, nil
	}
	index = slices.IndexFunc(tasks, func(t windlass.Submission) bool { return t.ID == path[0] })
	return index, &windlass.BadInputError{Field: "needs", Value: depend.Arrows(path), Limit: depend.NoWayBack}
}

// SubmitPlan is what submissions would do. Its JSON is stable.
type SubmitPlan struct {
	inspect.SubmitPlan
	Existed int `json:"existed" doc:"how many have been submitted before, the same in everything"`
	Failed  int `json:"failed" doc:"how many would be refused"`
	// Errors are the first ErrorsShownMax.
	Errors []string `json:"errors" doc:"the first ten of them"`
	// Warnings are the doubts about them.
	Warnings []string `json:"warnings,omitempty" doc:"what is probably not meant"`
}

// SubmitPlanOf makes a SubmitPlan of what inspect.Inspector.PlanSubmit returns.
func SubmitPlanOf(plan inspect.SubmitPlan, errs []error) SubmitPlan {
	sum, _ := SubmittedOf(errs)
	return SubmitPlan{SubmitPlan: plan, Existed: sum.Existed, Failed: sum.Failed, Errors: sum.Errors}
}

// Task is everything about a task except its history. Its JSON is stable.
type Task struct {
	windlass.TaskDetail
	// Progress is its latest checkpoint.
	Progress json.RawMessage `json:"progress"`
}

// CommandResult is a command to a task and what came of it. Its JSON is stable.
type CommandResult struct {
	ID      string               `json:"id"`
	Message statemachine.Message `json:"message"`
	Result  string               `json:"result" enum:"sent,done,failed"`
	// Status is that of the task once the command was carried out.
	Status windlass.Status `json:"status,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Changes are those with which retry or continue has run the task again.
	Changes []Change `json:"changes,omitempty"`
}

// The results of a command.
const (
	// ResultSent: nobody waited for it to be carried out, or not long enough.
	ResultSent = "sent"
	ResultDone = "done"
	// ResultFailed: it was not sent, or not carried out.
	ResultFailed = "failed"
)

// Preview has the IDs of all tasks that a command would affect. Its JSON is stable.
type Preview struct {
	Tasks int      `json:"tasks"`
	IDs   []string `json:"ids"`
}

// PreviewOf is the preview of a command to these tasks.
func PreviewOf(ids []string) Preview {
	if ids == nil {
		ids = []string{}
	}
	return Preview{Tasks: len(ids), IDs: ids}
}

// Pruned has the tasks that were forgotten, or would be. Its JSON is stable.
type Pruned struct {
	Forgotten int `json:"forgotten"`
	Kept      int `json:"kept"`
	// Blocking counts those that failed and are kept only because live tasks wait for
	// them, and Needed those that are kept only because live tasks need them.
	Blocking int      `json:"blocking"`
	Needed   int      `json:"needed"`
	DryRun   bool     `json:"dry_run"`
	IDs      []string `json:"ids"`
}

// PrunedOf is the view of an answer of Client.Prune.
func PrunedOf(p windlass.Pruned, dryRun bool) Pruned {
	return Pruned{Forgotten: len(p.IDs), Kept: p.Kept, Blocking: p.Blocking, Needed: p.Needed, DryRun: dryRun, IDs: PreviewOf(p.IDs).IDs}
}

// Live and Ended are the statuses of tasks that have not ended, and of those that have.
var Live, Ended = statuses(false), statuses(true)

func statuses(ended bool) []windlass.Status {
	return slices.DeleteFunc(slices.Clone(windlass.Statuses), func(s windlass.Status) bool {
		return statemachine.State(s).Terminal() != ended
	})
}
