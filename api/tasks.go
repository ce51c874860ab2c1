package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// taskFilter selects tasks by what they are. Huma takes no notice of what is embedded
// by a name that is not exported, so inputs repeat such fields.
type taskFilter struct {
	Types    []string `query:"type,explode" doc:"only these types; repeatable"`
	Statuses []string `query:"status,explode" doc:"only these statuses; repeatable"`
	Nodes    []string `query:"node,explode" doc:"only what these nodes hold, or held last; repeatable"`
	IDPrefix string   `query:"id_prefix" doc:"only IDs that begin with this"`
}

// filterMax bounds what a filter lists of a kind: each task is compared with each
// of them, and nothing ends that early.
const filterMax = 1000

func checkFilter(field string, values []string) error {
	if n := len(values); n > filterMax {
		return badInput(field, n, fmt.Sprintf("must be at most %d", filterMax))
	}
	return nil
}

func (f taskFilter) filter() (windlass.Filter, error) {
	if err := errors.Join(checkFilter("type", f.Types), checkFilter("node", f.Nodes)); err != nil {
		return windlass.Filter{}, err
	}
	statuses, err := statusesOf("status", f.Statuses, windlass.Statuses)
	return windlass.Filter{Types: f.Types, Statuses: statuses, Nodes: f.Nodes, IDPrefix: f.IDPrefix}, err
}

// statusesOf reads statuses that are allowed in a field.
func statusesOf(field string, names []string, among []windlass.Status) (statuses []windlass.Status, err error) {
	if err := checkFilter(field, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		known := false
		for _, s := range among {
			known = known || string(s) == name
		}
		if !known {
			return nil, badInput(field, shown(name), fmt.Sprintf("must be one of %q", among))
		}
		statuses = append(statuses, windlass.Status(name))
	}
	return statuses, nil
}

// listInput asks for a page of tasks.
type listInput struct {
	Types    []string `query:"type,explode" doc:"only these types; repeatable"`
	Statuses []string `query:"status,explode" doc:"only these statuses; repeatable"`
	Nodes    []string `query:"node,explode" doc:"only what these nodes hold, or held last; repeatable"`
	IDPrefix string   `query:"id_prefix" doc:"only IDs that begin with this"`
	Limit    int      `query:"limit" minimum:"0" doc:"how many at most; 0 for 1000"`
	Continue string   `query:"continue" doc:"from the Link header of the page before"`
}

// page is a page of tasks.
type page struct {
	Link string `header:"Link" doc:"of the next page, with rel=\"next\"; not there on the last one"`
	Body []windlass.TaskInfo
}

// pageDefault is the size of a page, unless told.
const pageDefault = 1000

// taskInput names a task.
type taskInput struct {
	ID string `path:"id" doc:"ID of the task"`
}

func (s *Server) registerTasks() {
	const tag = "tasks"
	add(s, endpoint{ID: "listTasks", Method: http.MethodGet, Path: "/v1/tasks", Tag: tag,
		Summary:     "List tasks, live and done, by ID",
		Description: "A page of them at a time; the Link header leads to the next one. The filters all have to match.",
	}, false, s.listTasks)
	add(s, endpoint{ID: "countTasks", Method: http.MethodGet, Path: "/v1/count", Tag: tag,
		Summary: "Count tasks by status",
	}, false, func(ctx context.Context, in *taskFilter) (*ok[map[string]int], error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		counts, err := s.client.Count(ctx, f)
		named := map[string]int{}
		for status, n := range counts {
			named[string(status)] = n
		}
		return answerWith(named, err)
	})
	add(s, endpoint{ID: "submitTask", Method: http.MethodPost, Path: "/v1/tasks", Tag: tag, Role: RoleOperate,
		Status: http.StatusCreated, Also: http.StatusOK, Errors: []int{http.StatusConflict},
		Summary:     "Submit a task",
		Description: "The very same task may be submitted again: that is a 200, and it has existed. Another one of its ID is a conflict.",
	}, true, s.submitTask)
	add(s, endpoint{ID: "submitTasks", Method: http.MethodPost, Path: "/v1/submissions", Tag: tag, Role: RoleOperate,
		Summary: "Submit many tasks",
		Description: fmt.Sprintf("At most %d. They are checked as a whole before anything is submitted, and then independent of each other: "+
			"the answer counts what became of them.", windlass.SubmitBatchMax),
	}, true, s.submitTasks)
	s.registerTask(tag)
}

// registerTask makes the endpoints of one task, and that which forgets tasks.
func (s *Server) registerTask(tag string) {
	add(s, endpoint{ID: "getTask", Method: http.MethodGet, Path: "/v1/tasks/{id}", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "Everything about one task but its history",
	}, false, func(ctx context.Context, in *taskInput) (*ok[view.Task], error) {
		detail, err := s.client.Task(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		progress, err := s.progress(ctx, in.ID)
		return answerWith(view.Task{TaskDetail: detail, Progress: progress}, err)
	})
	add(s, endpoint{ID: "deleteTask", Method: http.MethodDelete, Path: "/v1/tasks/{id}", Tag: tag, Role: RoleOperate,
		Errors: []int{http.StatusNotFound}, Status: http.StatusNoContent,
		Summary: "Delete a live task; a running one is stopped",
	}, false, func(ctx context.Context, in *taskInput) (*done, error) {
		note(ctx, slog.String("task", in.ID))
		return &done{}, s.client.Delete(ctx, in.ID)
	})
	add(s, endpoint{ID: "explainTask", Whole: true, Method: http.MethodGet, Path: "/v1/tasks/{id}/explain", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "Why a task does not run, or why it runs where it does",
	}, false, func(ctx context.Context, in *taskInput) (*ok[windlass.Explanation], error) {
		return answerWith(s.client.Explain(ctx, in.ID))
	})
	add(s, endpoint{ID: "taskHistory", Method: http.MethodGet, Path: "/v1/tasks/{id}/history", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "What happened to a task",
	}, false, func(ctx context.Context, in *taskInput) (*ok[statemachine.History], error) {
		h, err := s.client.History(ctx, in.ID)
		if errors.Is(err, windlass.ErrNotFound) {
			_, err = s.client.Task(ctx, in.ID) // one to which nothing has happened yet is there nevertheless
		}
		if h.Entries == nil {
			h.Entries = []statemachine.HistoryEntry{}
		}
		return answerWith(h, err)
	})
	add(s, endpoint{ID: "taskProgress", Method: http.MethodGet, Path: "/v1/tasks/{id}/progress", Tag: tag,
		Summary: "What the handler of a task saved last; null for nothing",
	}, false, func(ctx context.Context, in *taskInput) (*ok[json.RawMessage], error) {
		return answerWith(s.client.Progress(ctx, in.ID))
	})
	add(s, endpoint{ID: "waitForTask", Method: http.MethodGet, Path: "/v1/tasks/{id}/wait", Tag: tag, Waits: true,
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
		Summary:     "Wait until a task has a status",
		Description: "One that ends otherwise is a conflict; a timeout is a 504, after which the same can be asked again.",
	}, false, s.waitForTask)
	add(s, endpoint{ID: "pruneTasks", Whole: true, Method: http.MethodPost, Path: "/v1/prune", Tag: tag, Role: RoleAdmin,
		Summary:     "Forget tasks that have ended",
		Description: "With dry_run it only says which. Live tasks are never touched, and failures that these wait for only with unblock.",
	}, true, s.pruneTasks)
}

// progress is what a handler saved last. What cannot be read hides nothing else: it
// is left out, and an error where it alone is asked for.
func (s *Server) progress(ctx context.Context, id string) (json.RawMessage, error) {
	progress, err := s.client.Progress(ctx, id)
	if err != nil && problemOf(err).Code == codeInternal {
		s.config.Logger.Warn("the progress of a task is left out", "task", id, "error", err)
		return nil, nil
	}
	return progress, err
}

func (s *Server) listTasks(ctx context.Context, in *listInput) (*page, error) {
	f, err := taskFilter{in.Types, in.Statuses, in.Nodes, in.IDPrefix}.filter()
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	switch {
	case limit == 0:
		limit = min(pageDefault, s.config.Limits.ListMax)
	case limit > s.config.Limits.ListMax:
		return nil, badInput("limit", limit, fmt.Sprintf("must be at most %d", s.config.Limits.ListMax))
	}
	if err := s.hold(ctx, limit); err != nil {
		return nil, err
	}
	// What has gone, or come, between two pages makes no difference to the others.
	f.After, f.Limit = in.Continue, limit+1
	tasks, err := s.client.Tasks(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(tasks) <= limit {
		return &page{Body: append([]windlass.TaskInfo{}, tasks...)}, nil
	}
	tasks = tasks[:limit]
	next := url.Values{"limit": {strconv.Itoa(limit)}, "continue": {tasks[limit-1].ID}}
	for name, values := range map[string][]string{"type": in.Types, "status": in.Statuses, "node": in.Nodes} {
		if len(values) > 0 {
			next[name] = values
		}
	}
	if in.IDPrefix != "" {
		next.Set("id_prefix", in.IDPrefix)
	}
	return &page{Link: fmt.Sprintf(`<%s/v1/tasks?%s>; rel="next"`, s.config.Prefix, next.Encode()), Body: tasks}, nil
}

// check refuses a task before anything is done.
func (s *Server) check(task windlass.Submission) error {
	if err := task.Validate(); err != nil {
		return err
	}
	if s.config.Check != nil {
		return s.config.Check(task)
	}
	return nil
}

// submitInput is a task to be submitted.
type submitInput struct {
	Traceparent string `header:"traceparent" doc:"the W3C trace that it belongs to, unless it names one itself"`
	Body        view.Submission
}

// inTrace puts a task into the trace of its request. What is no traceparent is
// none, as the W3C has it.
func inTrace(task windlass.Submission, traceparent string) windlass.Submission {
	if task.Spec.Trace == "" && windlass.ValidTrace(traceparent) {
		task.Spec.Trace = traceparent
	}
	return task
}

// submitted is what became of a submission, 201 or 200.
type submitted struct {
	Status int
	Body   view.Submitted
}

func (s *Server) submitTask(ctx context.Context, in *submitInput) (*submitted, error) {
	task := inTrace(in.Body.Task(), in.Traceparent)
	note(ctx, slog.String("task", task.ID), slog.String("type", task.Spec.Type))
	if err := s.check(task); err != nil {
		return nil, err
	}
	err := s.client.Submit(ctx, task)
	switch {
	case err == nil:
		return &submitted{http.StatusCreated, view.Submitted{Submitted: 1, Errors: []string{}}}, nil
	case windlass.AlreadySubmitted(err):
		return &submitted{http.StatusOK, view.Submitted{Existed: 1, Errors: []string{}}}, nil
	}
	return nil, err
}

// submitManyInput are tasks to be submitted.
type submitManyInput struct {
	Traceparent string `header:"traceparent" doc:"the W3C trace that they belong to, unless one names its own"`
	Body        []view.Submission
}

func (s *Server) submitTasks(ctx context.Context, in *submitManyInput) (*ok[view.Submitted], error) {
	note(ctx, slog.Int("tasks", len(in.Body)))
	if n := len(in.Body); n > windlass.SubmitBatchMax {
		return nil, badInput("body", fmt.Sprintf("%d tasks", n), fmt.Sprintf("must be at most %d", windlass.SubmitBatchMax))
	}
	tasks, seen := make([]windlass.Submission, len(in.Body)), map[string]int{}
	for i, line := range in.Body {
		tasks[i] = inTrace(line.Task(), in.Traceparent)
		if err := s.check(tasks[i]); err != nil {
			return nil, fmt.Errorf("body[%d]: %w", i, err)
		}
		if before, twice := seen[line.ID]; twice {
			return nil, badInput(fmt.Sprintf("body[%d].id", i), line.ID, fmt.Sprintf("is that of body[%d] already", before))
		}
		seen[line.ID] = i
	}
	sum := view.Submitted{Errors: []string{}}
	var failed error
	for _, err := range s.client.SubmitAll(ctx, tasks) {
		switch {
		case err == nil:
			sum.Submitted++
		case windlass.AlreadySubmitted(err):
			sum.Existed++
		default:
			failed = err
			sum.Failed++
			if len(sum.Errors) < view.ErrorsShownMax {
				sum.Errors = append(sum.Errors, err.Error())
			}
		}
	}
	note(ctx, slog.Int("submitted", sum.Submitted), slog.Int("failed", sum.Failed))
	if len(tasks) > 0 && sum.Failed == len(tasks) && isOutage(failed) {
		return nil, failed // nothing was done, so that it says more than a sum
	}
	return &ok[view.Submitted]{sum}, nil
}

// isOutage tells whether an error is about the broker, and not about what was asked.
func isOutage(err error) bool { return problemOf(err).Status >= http.StatusInternalServerError }

// waitInput says what is waited for.
type waitInput struct {
	ID       string   `path:"id" doc:"ID of the task"`
	Statuses []string `query:"status,explode" required:"true" doc:"any of these; repeatable"`
	Timeout  string   `query:"timeout" doc:"for how long, such as 30s; as long as the server allows unless told"`
}

func (s *Server) waitForTask(ctx context.Context, in *waitInput) (*ok[windlass.TaskDetail], error) {
	statuses, err := statusesOf("status", in.Statuses, windlass.Statuses)
	if err != nil {
		return nil, err
	}
	timeout, err := s.waiting("timeout", in.Timeout, s.config.Limits.WaitMax)
	if err != nil {
		return nil, err
	}
	// Waiting goes on while the broker is away; that it is away now is said at once.
	if _, err := s.client.Task(ctx, in.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return answerWith(s.client.Wait(ctx, in.ID, statuses...))
}

// waiting reads for how long to wait; empty is unless.
func (s *Server) waiting(field, text string, unless time.Duration) (time.Duration, error) {
	if text == "" {
		return unless, nil
	}
	d, err := time.ParseDuration(text)
	if limit := s.config.Limits.WaitMax; err != nil || d < 0 || d > limit {
		return 0, badInput(field, shown(text), fmt.Sprintf("must be a duration from 0s to %v", limit))
	}
	return d, nil
}

// pruneInput says what is forgotten.
type pruneInput struct {
	Body struct {
		OlderThan string    `json:"older_than,omitempty" doc:"forget what ended longer ago than this, such as 168h"`
		Keep      int       `json:"keep,omitempty" minimum:"0" doc:"forget all but so many, the latest"`
		Selection selection `json:"selection,omitzero"`
		Unblock   bool      `json:"unblock,omitempty" doc:"also forget failures that live tasks wait for, which then run"`
		DryRun    bool      `json:"dry_run,omitempty"`
	}
}

func (s *Server) pruneTasks(ctx context.Context, in *pruneInput) (*ok[view.Pruned], error) {
	retention := windlass.Retention{Count: in.Body.Keep, Unblock: in.Body.Unblock}
	if text := in.Body.OlderThan; text != "" {
		var err error
		if retention.Age, err = time.ParseDuration(text); err != nil || retention.Age <= 0 {
			return nil, badInput("older_than", shown(text), "must be a positive duration such as 168h")
		}
	}
	f, err := in.Body.Selection.filter(view.Ended)
	if err != nil {
		return nil, err
	}
	p, err := s.client.Prune(ctx, retention, f, in.Body.DryRun)
	note(ctx, slog.Bool("dry_run", in.Body.DryRun), slog.Int("tasks", len(p.IDs)), slog.String("selection", strings.TrimSpace(fmt.Sprintf("%+v", in.Body.Selection))))
	return answerWith(view.PrunedOf(p, in.Body.DryRun), err)
}
