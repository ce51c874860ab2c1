package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/orders"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// selection picks tasks by what they are. The zero value picks all that the
// operation is about.
type selection struct {
	Types    []string `json:"types,omitempty" doc:"only these types"`
	Statuses []string `json:"statuses,omitempty" doc:"only these statuses"`
	IDPrefix string   `json:"id_prefix,omitempty" doc:"only IDs that begin with this"`
}

func (s selection) empty() bool { return len(s.Types)+len(s.Statuses)+len(s.IDPrefix) == 0 }

func (s selection) filter(among []windlass.Status) (windlass.Filter, error) {
	if err := checkFilter("selection.types", s.Types); err != nil {
		return windlass.Filter{}, err
	}
	statuses, err := statusesOf("selection.statuses", s.Statuses, among)
	return windlass.Filter{Types: s.Types, Statuses: statuses, IDPrefix: s.IDPrefix}, err
}

// command is what tasks are told.
type command struct {
	Message string     `json:"message" enum:"run,pause,sleep,kill,release,checkpoint" doc:"what they are told"`
	Until   *time.Time `json:"until,omitempty" doc:"with sleep: when to wake up"`
	For     string     `json:"for,omitempty" doc:"with sleep: for how long, such as 2h"`
	Wait    string     `json:"wait,omitempty" doc:"for how long to wait until it was carried out, such as 10s; not at all unless told"`
}

// messages are what callers may tell tasks: the others are what handlers say of
// themselves.
var messages = []statemachine.Message{
	statemachine.Run, statemachine.Pause, statemachine.Sleep, statemachine.Kill, statemachine.Release, statemachine.Checkpoint,
}

// message reads what is sent. The schema says the same of the message; but it looks at
// one key, and the decoder takes the last of those that differ in case alone.
func (c command) message() (statemachine.Command, error) {
	m := statemachine.Command{Message: statemachine.Message(c.Message)}
	if !slices.Contains(messages, m.Message) {
		return m, badInput("message", shown(c.Message), fmt.Sprintf("must be one of %q", messages))
	}
	sleeps := m.Message == statemachine.Sleep
	switch {
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

// orderInput is a command to one task.
type orderInput struct {
	ID   string `path:"id" doc:"ID of the task"`
	Body command
}

// ordersInput is a command to several.
type ordersInput struct {
	Body struct {
		Message   string     `json:"message" enum:"run,pause,sleep,kill,release,checkpoint" doc:"what they are told"`
		Until     *time.Time `json:"until,omitempty" doc:"with sleep: when to wake up"`
		For       string     `json:"for,omitempty" doc:"with sleep: for how long, such as 2h"`
		Wait      string     `json:"wait,omitempty" doc:"for how long to wait until they were carried out, such as 10s; not at all unless told"`
		IDs       []string   `json:"ids,omitempty" doc:"of the tasks; excludes selection"`
		Selection selection  `json:"selection,omitzero" doc:"among those that have not ended; excludes ids"`
	}
}

// whom names tasks, or selects them.
type whom struct {
	IDs       []string  `json:"ids,omitempty" doc:"of the tasks; excludes selection"`
	Selection selection `json:"selection,omitzero" doc:"among those that have not ended; excludes ids"`
}

// previewInput asks which tasks that would be.
type previewInput struct{ Body whom }

func (s *Server) registerOrders() {
	const tag = "commands"
	add(s, endpoint{ID: "commandTask", Method: http.MethodPost, Path: "/v1/tasks/{id}/commands", Tag: tag, Role: RoleOperate, Waits: true,
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
		Summary: "Send a command to a task",
		Description: "Whoever holds the task carries it out, or whoever takes it next. With wait the answer says whether that has happened: " +
			"the result is done, or still sent.",
	}, true, s.commandTask)
	add(s, endpoint{ID: "commandTasks", Method: http.MethodPost, Path: "/v1/commands", Tag: tag, Role: RoleOperate, Waits: true,
		Summary:     "Send a command to tasks by ID or by selection",
		Description: "Each has its own result. POST /v1/commands/preview says which tasks a selection is.",
	}, true, s.commandTasks)
	add(s, endpoint{ID: "previewCommand", Method: http.MethodPost, Path: "/v1/commands/preview", Tag: tag, Looks: true,
		Summary: "Which tasks a command would go to",
	}, true, func(ctx context.Context, in *previewInput) (*ok[view.Preview], error) {
		if err := s.hold(ctx, s.config.Limits.ListMax); err != nil {
			return nil, err
		}
		ids, err := s.concerned(ctx, in.Body)
		return answerWith(view.PreviewOf(ids), err)
	})
}

// concerned are the tasks that a command goes to, each once: a second command to
// the same task would take the place of the first.
func (s *Server) concerned(ctx context.Context, w whom) (ids []string, err error) {
	switch {
	case len(w.IDs) > 0 && !w.Selection.empty():
		return nil, badInput("ids", len(w.IDs), "ids and selection exclude each other")
	case len(w.IDs) == 0 && w.Selection.empty():
		return nil, badInput("ids", "", "ids or a selection must be given")
	case len(w.IDs) > 0:
		ids = slices.Compact(slices.Sorted(slices.Values(w.IDs)))
	default:
		f, err := w.Selection.filter(view.Live)
		if err != nil {
			return nil, err
		}
		if len(f.Statuses) == 0 {
			f.Statuses = view.Live
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

func (s *Server) commandTask(ctx context.Context, in *orderInput) (*ok[view.Order], error) {
	note(ctx, slog.String("task", in.ID), slog.String("message", in.Body.Message))
	sent, errs, err := s.order(ctx, in.Body, []string{in.ID})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return nil, err
	}
	return &ok[view.Order]{sent[0]}, nil
}

func (s *Server) commandTasks(ctx context.Context, in *ordersInput) (*ok[[]view.Order], error) {
	ids, err := s.concerned(ctx, whom{in.Body.IDs, in.Body.Selection})
	if err != nil {
		return nil, err
	}
	note(ctx, slog.String("message", in.Body.Message), slog.Int("tasks", len(ids)))
	sent, errs, err := s.order(ctx, command{in.Body.Message, in.Body.Until, in.Body.For, in.Body.Wait}, ids)
	if err != nil {
		return nil, err
	}
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	note(ctx, slog.Int("failed", len(failed)))
	if len(failed) > 0 && len(failed) == len(ids) && isOutage(failed[0]) {
		return nil, failed[0]
	}
	return &ok[[]view.Order]{sent}, nil
}

// order sends a command, and waits for it if it says so. There is an error for each
// task besides that for all.
func (s *Server) order(ctx context.Context, c command, ids []string) ([]view.Order, []error, error) {
	message, err := c.message()
	if err != nil {
		return nil, nil, err
	}
	patience, err := s.waiting("wait", c.Wait, 0)
	if err != nil {
		return nil, nil, err
	}
	sent := orders.Send(ctx, s.client, message, ids)
	if patience > 0 {
		orders.Await(ctx, s.client, sent, patience, func(int) {})
	}
	shown, errs := make([]view.Order, len(ids)), make([]error, len(ids))
	for i, o := range sent {
		shown[i], errs[i] = o.Order, o.Err
	}
	return shown, errs, nil
}
