package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// selection selects tasks by their properties. The zero value selects all that the
// operation applies to.
type selection struct {
	Types    []string `json:"types,omitempty" doc:"only these types"`
	Statuses []string `json:"statuses,omitempty" doc:"only these statuses"`
	IDPrefix string   `json:"id_prefix,omitempty" doc:"only IDs that begin with this"`
	Error    string   `json:"error,omitempty" doc:"only those whose last error contains this"`

	Tags  map[string]string `json:"tags,omitempty" doc:"only those with all of these tags; an empty value matches any"`
	Since time.Time         `json:"since,omitzero" doc:"only those to which something has happened since"`
}

func (s selection) empty() bool {
	return len(s.Types)+len(s.Statuses)+len(s.IDPrefix)+len(s.Error)+len(s.Tags) == 0 && s.Since.IsZero()
}

// String is the selection as it was given, for the audit record; empty for none.
func (s selection) String() string {
	if s.empty() {
		return ""
	}
	text, _ := encode(s) // it was decoded
	return string(text)
}

func (s selection) filter(among []windlass.Status) (windlass.Filter, error) {
	if err := checkFilter("selection.types", s.Types); err != nil {
		return windlass.Filter{}, err
	}
	if err := view.CheckTagFilter("selection.tags", s.Tags); err != nil {
		return windlass.Filter{}, err
	}
	statuses, err := statusesOf("selection.statuses", s.Statuses, among)
	return windlass.Filter{Types: s.Types, Statuses: statuses, IDPrefix: s.IDPrefix, Error: s.Error, Tags: s.Tags, Since: s.Since}, err
}

// taskCommand is a command to tasks.
type taskCommand struct {
	Message    string                     `json:"message" enum:"run,pause,sleep,kill,release,checkpoint,restart,retry,continue,delete" doc:"the command"`
	Until      *time.Time                 `json:"until,omitempty" doc:"with sleep: when to wake up"`
	For        string                     `json:"for,omitempty" doc:"with sleep: for how long, such as 2h"`
	Patch      map[string]json.RawMessage `json:"patch,omitempty" doc:"with retry and continue: what is to change, a merge patch (RFC 7396) as PATCH /v1/tasks/{id} takes"`
	Unblock    bool                       `json:"unblock,omitempty" doc:"with delete: also what live tasks wait for, which may then run"`
	Dependents bool                       `json:"dependents,omitempty" doc:"with kill: also what waits for the tasks, what waits for that, and so on, and all jobs below them"`
	Wait       string                     `json:"wait,omitempty" doc:"for how long to wait until it is carried out, such as 10s; default is not to wait"`
}

// messages are those that callers may send. Others come from handlers only.
var messages = []statemachine.Message{
	statemachine.Run, statemachine.Pause, statemachine.Sleep, statemachine.Kill, statemachine.Release, statemachine.Checkpoint,
	commands.Restart, commands.Retry, commands.Continue, commands.Delete,
}

// message returns the message to send. The schema checks c.Message too, but only the key in
// lower case, while the decoder uses the last of keys that differ only in case.
func (c taskCommand) message() (statemachine.Command, error) {
	m := statemachine.Command{Message: statemachine.Message(c.Message)}
	if !slices.Contains(messages, m.Message) {
		return m, badInput("message", shown(c.Message), fmt.Sprintf("must be one of %q", messages))
	}
	sleeps := m.Message == statemachine.Sleep
	switch {
	case c.Patch != nil && !commands.Runs(m.Message):
		return m, badInput("patch", c.Message, "patch goes with retry and continue alone")
	case c.Unblock && m.Message != commands.Delete:
		return m, badInput("unblock", c.Message, "unblock goes with delete alone")
	case c.Dependents && m.Message != statemachine.Kill:
		return m, badInput("dependents", c.Message, "dependents goes with kill alone")
	case !sleeps && (c.Until != nil || c.For != ""):
		return m, badInput("until", c.Message, "until and for go with sleep alone")
	case !sleeps:
		return m, nil
	case (c.Until == nil) == (c.For == ""):
		return m, badInput("until", "", "sleep needs until or for, and not both")
	case c.Until != nil && c.Until.Before(time.Now()):
		return m, badInput("until", c.Until.Format(time.RFC3339), "is in the past")
	case c.Until != nil:
		return statemachine.SleepUntil(*c.Until), nil
	}
	d, err := time.ParseDuration(c.For)
	if err != nil || d <= 0 {
		return m, badInput("for", shown(c.For), "must be a positive duration such as 2h")
	}
	return statemachine.SleepUntil(time.Now().Add(d)), nil
}

// commandInput is a command to one task.
type commandInput struct {
	ID   string `path:"id" doc:"ID of the task"`
	Sent taskCommand
}

// commandsInput is a command to several tasks: the fields of taskCommand and of recipients.
type commandsInput struct {
	Sent struct {
		Message    string                     `json:"message" enum:"run,pause,sleep,kill,release,checkpoint,restart,retry,continue,delete" doc:"the command"`
		Until      *time.Time                 `json:"until,omitempty" doc:"with sleep: when to wake up"`
		For        string                     `json:"for,omitempty" doc:"with sleep: for how long, such as 2h"`
		Patch      map[string]json.RawMessage `json:"patch,omitempty" doc:"with retry and continue: what is to change, a merge patch (RFC 7396) as PATCH /v1/tasks/{id} takes"`
		Unblock    bool                       `json:"unblock,omitempty" doc:"with delete: also what live tasks wait for, which may then run"`
		Dependents bool                       `json:"dependents,omitempty" doc:"with kill: also what waits for the tasks, what waits for that, and so on, and all jobs below them"`
		Wait       string                     `json:"wait,omitempty" doc:"for how long to wait until all have carried it out, such as 10s; default is not to wait"`
		IDs        []string                   `json:"ids,omitempty" doc:"of the tasks; excludes selection"`
		Selection  selection                  `json:"selection,omitzero" doc:"among live tasks, failed ones for retry and continue, those that run for restart; excludes ids"`
	}
}

// recipients are the tasks that a command goes to.
type recipients struct {
	Message   string    `json:"message,omitempty" enum:"run,pause,sleep,kill,release,checkpoint,restart,retry,continue,delete" doc:"the command; retry and continue go to tasks that have ended, restart to those that run, the others to live ones"`
	IDs       []string  `json:"ids,omitempty" doc:"of the tasks; excludes selection"`
	Selection selection `json:"selection,omitzero" doc:"among live tasks, failed ones for retry and continue, those that run for restart; excludes ids"`
}

type previewInput struct{ Sent recipients }

func (s *Server) registerCommands() {
	const tag = "commands"
	add(s, endpoint{ID: "commandTask", Method: http.MethodPost, Path: "/v1/tasks/{id}/commands", Tag: tag, Role: RoleOperate, Waits: true,
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
		Summary: "Send a command to a task",
		Description: "The node that holds the task carries it out, or the next one that does. With wait the result is done if that has happened, " +
			"and sent if it has not. retry submits a task that has ended again, as it was submitted but for what patch changes; continue also keeps the progress that it has saved. " +
			"delete refuses a task that live tasks wait for, unless unblock is set; kill with dependents ends these first. " +
			"restart has the node stop one that runs, and run it again. These three and delete are done once they are stored.",
	}, s.commandTask)
	add(s, endpoint{ID: "commandTasks", Method: http.MethodPost, Path: "/v1/commands", Tag: tag, Role: RoleOperate, Waits: true,
		Summary:     "Send a command to tasks by ID or by selection",
		Description: "Each has its own result. POST /v1/commands/preview lists the tasks of a selection.",
	}, s.commandTasks)
	add(s, endpoint{ID: "previewCommand", Whole: true, Method: http.MethodPost, Path: "/v1/commands/preview", Tag: tag, Looks: true,
		Summary: "Which tasks a command would go to",
	}, func(ctx context.Context, in *previewInput) (*ok[view.Preview], error) {
		ids, err := s.idsOf(ctx, in.Sent)
		return answerWith(view.PreviewOf(ids), err)
	})
}

// idsOf returns the IDs of the tasks that a command goes to, each once, since a second
// command to a task would replace the first.
func (s *Server) idsOf(ctx context.Context, to recipients) (ids []string, err error) {
	switch {
	case len(to.IDs) > 0 && !to.Selection.empty():
		return nil, badInput("ids", len(to.IDs), "ids and selection exclude each other")
	case len(to.IDs) == 0 && to.Selection.empty():
		return nil, badInput("ids", "", "ids or a selection must be given")
	case len(to.IDs) > 0:
		ids = slices.Compact(slices.Sorted(slices.Values(to.IDs)))
	default:
		among, usual := commands.Among(statemachine.Message(to.Message))
		f, err := to.Selection.filter(among)
		if err != nil {
			return nil, err
		}
		if len(f.Statuses) == 0 {
			f.Statuses = usual
		}
		f.Limit = s.config.Limits.ListMax + 1
		tasks, err := s.client.Tasks(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
	}
	if limit := s.config.Limits.ListMax; len(ids) > limit {
		return nil, badInput("tasks", fmt.Sprintf("%d or more", len(ids)), fmt.Sprintf("must be at most %d in one call", limit))
	}
	return ids, nil
}

func (s *Server) commandTask(ctx context.Context, in *commandInput) (*ok[view.CommandResult], error) {
	note(ctx, slog.String("task", in.ID), slog.String("message", in.Sent.Message))
	noteSleep(ctx, in.Sent.Until, in.Sent.For)
	notePatch(ctx, in.Sent.Patch)
	sent, errs, err := s.apply(ctx, in.Sent, []string{in.ID})
	if err != nil {
		return nil, err
	}
	return answerWith(sent[0], errs[0])
}

func (s *Server) commandTasks(ctx context.Context, in *commandsInput) (*ok[[]view.CommandResult], error) {
	note(ctx, slog.String("message", in.Sent.Message), slog.String("selection", in.Sent.Selection.String()),
		slog.Bool("dependents", in.Sent.Dependents), slog.Bool("unblock", in.Sent.Unblock))
	noteSleep(ctx, in.Sent.Until, in.Sent.For)
	notePatch(ctx, in.Sent.Patch)
	ids, err := s.idsOf(ctx, recipients{in.Sent.Message, in.Sent.IDs, in.Sent.Selection})
	if err != nil {
		note(ctx, slog.Int("tasks", len(in.Sent.IDs)), slog.String("first", firstOf(in.Sent.IDs)))
		return nil, err
	}
	note(ctx, slog.Int("tasks", len(ids)), slog.String("first", firstOf(ids)))
	sent, errs, err := s.apply(ctx, taskCommand{in.Sent.Message, in.Sent.Until, in.Sent.For, in.Sent.Patch, in.Sent.Unblock, in.Sent.Dependents, in.Sent.Wait}, ids)
	if err != nil {
		return nil, err
	}
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	noteSum(ctx, slog.Int("sent", len(sent)-len(failed)), len(failed))
	if len(failed) > 0 && len(failed) == len(sent) && isOutage(failed[0]) {
		return nil, failed[0]
	}
	return &ok[[]view.CommandResult]{sent}, nil
}

// noteSleep notes for how long tasks are to sleep.
func noteSleep(ctx context.Context, until *time.Time, length string) {
	if until != nil {
		note(ctx, slog.String("until", until.Format(time.RFC3339)))
	}
	if length != "" {
		note(ctx, slog.String("for", length))
	}
}

// apply sends a command, and waits as long as it asks for. It returns an error for each
// task, and one for all.
func (s *Server) apply(ctx context.Context, c taskCommand, ids []string) ([]view.CommandResult, []error, error) {
	message, err := c.message()
	if err != nil {
		return nil, nil, err
	}
	patience, err := s.waiting("wait", c.Wait, 0)
	if err != nil {
		return nil, nil, err
	}
	command := commands.Command{Command: message, Unblock: c.Unblock, Dependents: c.Dependents}
	if c.Patch != nil {
		if n := bytesOf(c.Patch); n*len(ids) > patchedBytesMax {
			return nil, nil, badInput("patch", fmt.Sprintf("%d bytes for %d tasks", n, len(ids)), fmt.Sprintf("must have at most %d bytes for all tasks together", patchedBytesMax))
		}
		command.Change = s.patching("patch", c.Patch)
	}
	sent := commands.Apply(ctx, s.client, command, ids)
	if patience > 0 {
		commands.Await(ctx, s.client, sent, patience, func(int) {})
	}
	shown, errs := make([]view.CommandResult, len(sent)), make([]error, len(sent))
	bytes := 0
	for i, o := range sent {
		if shown[i], errs[i] = o.CommandResult, o.Err; i == 0 {
			continue
		}
		for j := range shown[i].Changes {
			c := &shown[i].Changes[j]
			if bytes += len(c.From) + len(c.To); bytes > changesBytesMax {
				c.From, c.To = nil, nil
			}
		}
	}
	return shown, errs, nil
}

const (
	// patchedBytesMax limits the bytes of a patch, as often as it is applied, and changesBytesMax those of the
	// values that the answer for several tasks has: behind that it names the fields alone.
	patchedBytesMax = 8 << 20
	changesBytesMax = 1 << 20
)

// bytesOf is how long a patch is.
func bytesOf(patch map[string]json.RawMessage) (n int) {
	for name, value := range patch {
		n += len(name) + len(value)
	}
	return n
}
