package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// taskFilter selects tasks by their properties. Huma ignores embedded types that are not
// exported, so other inputs repeat its fields.
type taskFilter struct {
	Types    []string  `query:"type,explode" doc:"only these types; repeatable"`
	Statuses []string  `query:"status,explode" doc:"only these statuses; repeatable"`
	Nodes    []string  `query:"node,explode" doc:"only what these nodes hold, or held last; repeatable"`
	IDPrefix string    `query:"id_prefix" doc:"only IDs that begin with this"`
	Error    string    `query:"error" doc:"only those whose last error contains this"`
	Tags     []string  `query:"tag,explode" doc:"only those with this tag, as key=value, or with any value of a key; repeatable, and all must match"`
	Since    time.Time `query:"since" doc:"only those to which something has happened since"`
}

// filterMax bounds the values of a filter, because each task is compared with each of them.
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
	if err != nil {
		return windlass.Filter{}, err
	}
	tags, err := view.TagFilter("tag", f.Tags)
	return windlass.Filter{Types: f.Types, Statuses: statuses, Nodes: f.Nodes, IDPrefix: f.IDPrefix, Error: f.Error, Tags: tags, Since: f.Since}, err
}

// statusesOf reads statuses that are allowed in a field.
func statusesOf(field string, names []string, among []windlass.Status) (statuses []windlass.Status, err error) {
	if err := checkFilter(field, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(among, windlass.Status(name)) {
			return nil, badInput(field, shown(name), fmt.Sprintf("must be one of %q", among))
		}
		statuses = append(statuses, windlass.Status(name))
	}
	return statuses, nil
}

type listInput struct {
	Types    []string  `query:"type,explode" doc:"only these types; repeatable"`
	Statuses []string  `query:"status,explode" doc:"only these statuses; repeatable"`
	Nodes    []string  `query:"node,explode" doc:"only what these nodes hold, or held last; repeatable"`
	IDPrefix string    `query:"id_prefix" doc:"only IDs that begin with this"`
	Error    string    `query:"error" doc:"only those whose last error contains this"`
	Tags     []string  `query:"tag,explode" doc:"only those with this tag, as key=value, or with any value of a key; repeatable, and all must match"`
	Since    time.Time `query:"since" doc:"only those to which something has happened since"`
	Limit    int       `query:"limit" minimum:"0" doc:"how many at most; 0 for 1000"`
	Continue string    `query:"continue" doc:"from the Link header of the page before"`
}

type failuresInput struct {
	Types    []string  `query:"type,explode" doc:"only these types; repeatable"`
	IDPrefix string    `query:"id_prefix" doc:"only IDs that begin with this"`
	Error    string    `query:"error" doc:"only those whose last error contains this"`
	Tags     []string  `query:"tag,explode" doc:"only those with this tag, as key=value, or with any value of a key; repeatable, and all must match"`
	Since    time.Time `query:"since" doc:"only those to which something has happened since"`
}

type interruptionsInput struct {
	IDs []string `query:"id,explode" required:"true" doc:"of the tasks; repeatable"`
}

type page struct {
	Link string `header:"Link" doc:"of the next page, with rel=\"next\"; missing on the last one"`
	Body []windlass.TaskInfo
}

// pageDefault is the default number of tasks of a page.
const pageDefault = 1000

type taskInput struct {
	ID string `path:"id" doc:"ID of the task"`
}

type deleteInput struct {
	ID      string `path:"id" doc:"ID of the task"`
	Unblock bool   `query:"unblock" doc:"also if live tasks wait for it, which may then run"`
}

func (s *Server) registerTasks() {
	const tag = "tasks"
	add(s, endpoint{ID: "listTasks", Method: http.MethodGet, Path: "/v1/tasks", Tag: tag,
		Summary:     "List tasks, live and done, by ID",
		Description: "Returns one page; the Link header leads to the next one. All filters must match.",
	}, s.listTasks)
	add(s, endpoint{ID: "countTasks", Method: http.MethodGet, Path: "/v1/count", Tag: tag,
		Summary: "Count tasks by status",
	}, func(ctx context.Context, in *taskFilter) (*ok[map[string]int], error) {
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
	add(s, endpoint{ID: "listFailures", Whole: true, Method: http.MethodGet, Path: "/v1/failures", Tag: tag,
		Summary:     "What an error has stopped, grouped by type and last error",
		Description: "Tasks that have failed, sleep until they are tried again, or are in fault. Errors whose first lines differ only in words with digits are one group, unless it is an exit code or a status. The largest group comes first.",
	}, func(ctx context.Context, in *failuresInput) (*ok[[]inspect.FailureGroup], error) {
		f, err := taskFilter{Types: in.Types, IDPrefix: in.IDPrefix, Error: in.Error, Tags: in.Tags, Since: in.Since}.filter()
		if err != nil {
			return nil, err
		}
		return answerWith(s.inspector.Failures(ctx, f))
	})
	add(s, endpoint{ID: "countInterruptions", Method: http.MethodGet, Path: "/v1/interruptions", Tag: tag,
		Summary:     "How often tasks were interrupted",
		Description: "Counts the ends of claims that neither the task nor a command wanted. A task that was never interrupted is missing.",
	}, func(ctx context.Context, in *interruptionsInput) (*ok[map[string]int], error) {
		if err := checkFilter("id", in.IDs); err != nil {
			return nil, err
		}
		return answerWith(s.inspector.Interruptions(ctx, in.IDs...))
	})
	add(s, endpoint{ID: "submitTask", Method: http.MethodPost, Path: "/v1/tasks", Tag: tag, Role: RoleOperate,
		Status: http.StatusCreated, Also: http.StatusOK, Errors: []int{http.StatusConflict},
		Summary:     "Submit a task",
		Description: "Submitting the same task again is a 200, and counts as existed. A different task with the same ID is a conflict.",
	}, s.submitTask)
	add(s, endpoint{ID: "submitTasks", Method: http.MethodPost, Path: "/v1/submissions", Tag: tag, Role: RoleOperate,
		Summary: "Submit many tasks",
		Description: fmt.Sprintf("At most %d, in any order: none runs before what it needs. All are checked before any is submitted; then each succeeds or fails by itself, "+
			"except that what needs a refused one is refused, and the answer counts the results.", BatchMax),
	}, s.submitTasks)
	add(s, endpoint{ID: "previewSubmissions", Whole: true, Method: http.MethodPost, Path: "/v1/submissions/preview", Tag: tag, Looks: true,
		Summary: "What submitting tasks would do",
		Description: "Which nodes would claim how many of them, why others would wait, and which would be refused. effects counts the rest: created, or " +
			"requeued for one that runs again.",
	}, s.previewSubmissions)
	s.registerTask(tag)
}

// registerTask registers the endpoints of one task and pruneTasks.
func (s *Server) registerTask(tag string) {
	add(s, endpoint{ID: "getTask", Method: http.MethodGet, Path: "/v1/tasks/{id}", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "Everything about one task but its history",
	}, func(ctx context.Context, in *taskInput) (*ok[view.Task], error) {
		detail, err := s.client.Task(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		progress, err := s.progress(ctx, in.ID)
		return answerWith(view.Task{TaskDetail: detail, Progress: progress}, err)
	})
	add(s, endpoint{ID: "deleteTask", Method: http.MethodDelete, Path: "/v1/tasks/{id}", Tag: tag, Role: RoleOperate,
		Errors: []int{http.StatusNotFound, http.StatusConflict}, Status: http.StatusNoContent,
		Summary:     "Delete a live task; a running one is stopped",
		Description: "A task that live tasks wait for is a conflict (needed), unless unblock is set: these may then run.",
	}, func(ctx context.Context, in *deleteInput) (*done, error) {
		note(ctx, slog.String("task", in.ID), slog.Bool("unblock", in.Unblock))
		command := commands.Command{Command: statemachine.Command{Message: commands.Delete}, Unblock: in.Unblock}
		return &done{}, commands.Apply(ctx, s.client, command, []string{in.ID})[0].Err
	})
	add(s, endpoint{ID: "updateTask", Method: http.MethodPatch, Path: "/v1/tasks/{id}", Tag: tag, Role: RoleOperate,
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
		Summary: "Change the properties or the settings of a live task",
		Description: "The body is a merge patch (RFC 7396) of the task as it was submitted: null removes a value, and of two objects the fields are merged. " +
			"A handler that listens is told of new properties; any other is stopped, and the task runs again as it is now.",
	}, s.updateTask)
	add(s, endpoint{ID: "explainTask", Whole: true, Method: http.MethodGet, Path: "/v1/tasks/{id}/explain", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "Why a task does not run, or why it runs where it does",
	}, func(ctx context.Context, in *taskInput) (*ok[inspect.Explanation], error) {
		return answerWith(s.inspector.Explain(ctx, in.ID))
	})
	add(s, endpoint{ID: "taskHistory", Method: http.MethodGet, Path: "/v1/tasks/{id}/history", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "What happened to a task",
	}, func(ctx context.Context, in *taskInput) (*ok[statemachine.History], error) {
		h, err := s.inspector.History(ctx, in.ID)
		if errors.Is(err, windlass.ErrNotFound) {
			_, err = s.client.Task(ctx, in.ID) // a new task has no history yet
		}
		if h.Entries == nil {
			h.Entries = []statemachine.HistoryEntry{}
		}
		return answerWith(h, err)
	})
	add(s, endpoint{ID: "taskProgress", Method: http.MethodGet, Path: "/v1/tasks/{id}/progress", Tag: tag,
		Summary: "The latest checkpoint of a task's handler; null if there is none",
	}, func(ctx context.Context, in *taskInput) (*ok[json.RawMessage], error) {
		return answerWith(s.client.Progress(ctx, in.ID))
	})
	add(s, endpoint{ID: "waitForTask", Method: http.MethodGet, Path: "/v1/tasks/{id}/wait", Tag: tag, Waits: true,
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
		Summary:     "Wait until a task has a status",
		Description: "If the task ends with another status that is a conflict. A timeout is a 504; the request can be repeated.",
	}, s.waitForTask)
	add(s, endpoint{ID: "pruneTasks", Whole: true, Method: http.MethodPost, Path: "/v1/prune", Tag: tag, Role: RoleAdmin,
		Summary:     "Forget tasks that have ended",
		Description: "With dry_run it only lists them. Live tasks are never touched, and failed tasks that live ones wait for only with unblock.",
	}, s.pruneTasks)
}

// progress returns the latest checkpoint of a task, or nothing if it cannot be decoded, so
// that the rest of the task is still shown.
func (s *Server) progress(ctx context.Context, id string) (json.RawMessage, error) {
	progress, err := s.client.Progress(ctx, id)
	if err != nil && problemOf(err).Code == codeInternal {
		s.config.Logger.Warn("the progress of a task is left out", "task", id, "error", err)
		return nil, nil
	}
	return progress, err
}

func (s *Server) listTasks(ctx context.Context, in *listInput) (*page, error) {
	f, err := taskFilter{in.Types, in.Statuses, in.Nodes, in.IDPrefix, in.Error, in.Tags, in.Since}.filter()
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
	// A page begins after an ID, so tasks that come or go meanwhile do not shift it.
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
	for name, values := range map[string][]string{"type": in.Types, "status": in.Statuses, "node": in.Nodes, "tag": in.Tags} {
		if len(values) > 0 {
			next[name] = values
		}
	}
	since := ""
	if !in.Since.IsZero() {
		since = in.Since.Format(time.RFC3339Nano)
	}
	for name, value := range map[string]string{"id_prefix": in.IDPrefix, "error": in.Error, "since": since} {
		if value != "" {
			next.Set(name, value)
		}
	}
	return &page{Link: fmt.Sprintf(`<%s/v1/tasks?%s>; rel="next"`, s.config.Prefix, next.Encode()), Body: tasks}, nil
}

func (s *Server) check(task windlass.Submission) error {
	if err := task.Validate(); err != nil {
		return err
	}
	if s.config.Check != nil {
		return s.config.Check(task)
	}
	return nil
}

type submitInput struct {
	Traceparent string `header:"traceparent" doc:"W3C trace of the task, unless it has its own"`
	Sent        view.Submission
}

// inTrace puts a task into the trace of its request. It ignores an invalid traceparent, as
// the W3C demands.
func inTrace(task windlass.Submission, traceparent string) windlass.Submission {
	if task.Spec.Trace == "" && events.ValidTrace(traceparent) {
		task.Spec.Trace = traceparent
	}
	return task
}

type submitted struct {
	Status int
	Body   view.Submitted
}

func (s *Server) submitTask(ctx context.Context, in *submitInput) (*submitted, error) {
	task := inTrace(in.Sent.Task(), in.Traceparent)
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

type updateInput struct {
	ID   string `path:"id" doc:"ID of the task"`
	Sent map[string]json.RawMessage
}

func (s *Server) updateTask(ctx context.Context, in *updateInput) (*ok[view.Changed], error) {
	note(ctx, slog.String("task", in.ID))
	notePatch(ctx, in.Sent)
	changed, _, err := commands.Update(ctx, s.client, in.ID, s.patching("body", in.Sent))
	return answerWith(changed, err)
}

// notePatch notes what a merge patch changes: the settings, and the properties that are there at
// the top. Values may be secret.
func notePatch(ctx context.Context, patch map[string]json.RawMessage) {
	if patch == nil {
		return
	}
	var fields []string
	for name, value := range patch {
		var below map[string]json.RawMessage
		if name != "props" || len(value) > view.PatchBytesMax || json.Unmarshal(value, &below) != nil || len(below) == 0 {
			fields = append(fields, name)
		}
		for property := range below {
			fields = append(fields, name+"."+property)
		}
	}
	slices.Sort(fields)
	note(ctx, slog.String("fields", strings.Join(fields, " ")))
}

// patching returns the change that a merge patch makes, which was given in a field.
func (s *Server) patching(field string, patch map[string]json.RawMessage) func(*windlass.Submission) error {
	return func(t *windlass.Submission) error {
		if err := view.Patch(t, patch); err != nil {
			return misfit(field, err)
		}
		return s.check(*t)
	}
}

type submitManyInput struct {
	Traceparent string `header:"traceparent" doc:"W3C trace of each task that does not have its own"`
	Sent        []view.Submission
}

// read validates the tasks of a request.
func (in *submitManyInput) read(s *Server) ([]windlass.Submission, error) {
	if n := len(in.Sent); n > BatchMax {
		return nil, badInput("body", fmt.Sprintf("%d tasks", n), fmt.Sprintf("must be at most %d", BatchMax))
	}
	tasks, seen := make([]windlass.Submission, len(in.Sent)), map[string]int{}
	for i, line := range in.Sent {
		tasks[i] = inTrace(line.Task(), in.Traceparent)
		if err := s.check(tasks[i]); err != nil {
			return nil, inItem(i, err)
		}
		if before, twice := seen[line.ID]; twice {
			return nil, badInput(fmt.Sprintf("body[%d].id", i), line.ID, fmt.Sprintf("is that of body[%d] already", before))
		}
		seen[line.ID] = i
	}
	if i, err := view.CheckNeeds(tasks); err != nil {
		return nil, inItem(i, err)
	}
	return tasks, nil
}

func (s *Server) previewSubmissions(ctx context.Context, in *submitManyInput) (*ok[view.SubmitPlan], error) {
	tasks, err := in.read(s)
	if err != nil {
		return nil, err
	}
	plan, errs, err := s.inspector.PlanSubmit(ctx, tasks)
	if err != nil {
		return nil, err
	}
	answer := view.SubmitPlanOf(plan, errs)
	answer.Warnings, err = s.inspector.Warnings(ctx, tasks)
	return answerWith(answer, err)
}

func (s *Server) submitTasks(ctx context.Context, in *submitManyInput) (*ok[view.Submitted], error) {
	ids := make([]string, len(in.Sent))
	for i, line := range in.Sent {
		ids[i] = line.ID
	}
	note(ctx, slog.Int("tasks", len(ids)), slog.String("first", firstOf(ids)))
	tasks, err := in.read(s)
	if err != nil {
		return nil, err
	}
	sum, first := view.SubmittedOf(s.client.SubmitAll(ctx, tasks))
	noteSum(ctx, slog.Int("submitted", sum.Submitted), sum.Failed)
	if len(tasks) > 0 && sum.Failed == len(tasks) && isOutage(first) {
		return nil, first // nothing was done, and the error says more than a sum
	}
	return &ok[view.Submitted]{sum}, nil
}

// isOutage reports whether an error is the broker's or the server's, not the request's.
func isOutage(err error) bool { return problemOf(err).Status >= http.StatusInternalServerError }

type waitInput struct {
	ID       string   `path:"id" doc:"ID of the task"`
	Statuses []string `query:"status,explode" required:"true" doc:"any of these; repeatable"`
	Timeout  string   `query:"timeout" doc:"for how long, such as 30s; default is the server's maximum"`
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
	// Wait retries while the broker is unreachable; this returns at once if it is so now.
	if _, err := s.client.Task(ctx, in.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return answerWith(s.client.Wait(ctx, in.ID, statuses...))
}

// waiting parses for how long to wait.
func (s *Server) waiting(field, text string, def time.Duration) (time.Duration, error) {
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if limit := s.config.Limits.WaitMax; err != nil || d < 0 || d > limit {
		return 0, badInput(field, shown(text), fmt.Sprintf("must be a duration from 0s to %v", limit))
	}
	return d, nil
}

type pruneInput struct {
	Sent struct {
		OlderThan string    `json:"older_than,omitempty" doc:"forget tasks that ended longer ago than this, such as 168h"`
		Keep      int       `json:"keep,omitempty" minimum:"0" doc:"how many of the latest to keep"`
		Selection selection `json:"selection,omitzero"`
		Unblock   bool      `json:"unblock,omitempty" doc:"also forget failed tasks that live ones wait for, which then run"`
		DryRun    bool      `json:"dry_run,omitempty"`
	}
}

func (s *Server) pruneTasks(ctx context.Context, in *pruneInput) (*ok[view.Pruned], error) {
	retention := windlass.Retention{Count: in.Sent.Keep, Unblock: in.Sent.Unblock}
	if text := in.Sent.OlderThan; text != "" {
		var err error
		if retention.Age, err = time.ParseDuration(text); err != nil || retention.Age <= 0 {
			return nil, badInput("older_than", shown(text), "must be a positive duration such as 168h")
		}
	}
	f, err := in.Sent.Selection.filter(view.Ended)
	if err != nil {
		return nil, err
	}
	note(ctx, slog.Bool("dry_run", in.Sent.DryRun), slog.Bool("unblock", in.Sent.Unblock),
		slog.String("older_than", in.Sent.OlderThan), slog.Int("keep", in.Sent.Keep), slog.String("selection", in.Sent.Selection.String()))
	p, err := s.client.Prune(ctx, retention, f, in.Sent.DryRun)
	note(ctx, slog.Int("tasks", len(p.IDs)), slog.String("first", firstOf(p.IDs)))
	return answerWith(view.PrunedOf(p, in.Sent.DryRun), err)
}
