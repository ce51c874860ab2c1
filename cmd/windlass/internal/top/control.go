package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// askMax bounds one question or command, until a task has carried it out.
const askMax = 10 * time.Second

// control sends commands and reads the details of tasks, until ctx ends with the program.
type control struct {
	ctx       context.Context
	client    *windlass.Client
	broker    broker.Broker
	namespace string
}

// done is the outcome of an action.
type done struct {
	text   string
	failed bool
}

// order sends a command to a task and reports whether it was carried out.
func (c *control) order(id string, command statemachine.Command) tea.Cmd {
	return c.doing(fmt.Sprintf("%s %s", command.Message, view.Printable(id)), func(ctx context.Context) (string, error) {
		sent, err := c.client.SendTask(ctx, id, command)
		if err != nil {
			return "", err
		}
		task, err := c.client.AwaitCommand(ctx, sent)
		switch {
		case err == nil:
			return "carried out; it is " + string(task.Status), nil
		case ctx.Err() != nil:
			return fmt.Sprintf("sent, and not carried out within %v; it may yet be", askMax), nil
		}
		return "", err
	})
}

func (c *control) retry(id string) tea.Cmd {
	return c.doing("retry "+view.Printable(id), func(ctx context.Context) (string, error) { return "done", c.client.Rerun(ctx, windlass.Rerun{}, id)[0] })
}

func (c *control) command(node, command string) tea.Cmd {
	return c.doing(command+" "+view.Printable(node), func(ctx context.Context) (string, error) {
		return "sent", operate.New(c.client).Send(ctx, node, operate.Command{Command: command})
	})
}

// cordon cordons a node, or ends that.
func (c *control) cordon(node, verb string) tea.Cmd {
	return c.doing(verb+" "+view.Printable(node), func(ctx context.Context) (string, error) {
		if verb == "uncordon" {
			return "done", operate.New(c.client).Uncordon(ctx, node)
		}
		_, err := operate.New(c.client).Cordon(ctx, node, "")
		return "done", err
	})
}

func (c *control) resign(name string) tea.Cmd {
	return c.doing("resign "+view.Printable(name), func(ctx context.Context) (string, error) {
		asked, err := election.RequestResign(ctx, c.broker, c.namespace, name)
		return view.Printable(asked.Leader) + " was asked to step down", err
	})
}

// doing runs f for at most askMax and reports its outcome.
func (c *control) doing(what string, f func(context.Context) (string, error)) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(c.ctx, askMax)
		defer cancel()
		said, err := f(ctx)
		if err != nil {
			return done{text: what + ": " + view.Printable(err.Error()), failed: true}
		}
		return done{text: what + ": " + said}
	}
}

// detail is the text about one task.
type detail struct {
	id    string
	lines []string
}

func (c *control) look(id string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(c.ctx, askMax)
		defer cancel()
		task, err := c.client.Task(ctx, id)
		if err != nil {
			return detail{id, []string{"cannot be read: " + view.Printable(err.Error())}}
		}
		explained, explainErr := inspect.New(c.client).Explain(ctx, id)
		history, historyErr := inspect.New(c.client).History(ctx, id)
		progress, progressErr := c.client.Progress(ctx, id)
		lines := describe(task, time.Now())
		if explainErr == nil {
			lines = append(lines, explain(explained)...)
		}
		if len(progress) > 0 {
			lines = append(lines, field("progress", string(progress)))
		}
		if historyErr == nil {
			lines = append(lines, recount(history)...)
		}
		if err := errors.Join(explainErr, historyErr, progressErr); err != nil && !errors.Is(err, windlass.ErrNotFound) {
			lines = append(lines, "", field("not read", err.Error()))
		}
		return detail{id, lines}
	}
}

// field is a line of a detail, which the frame cuts to its width.
func field(name, value string) string { return fmt.Sprintf("%-12s %s", name, view.Printable(value)) }

func describe(t windlass.TaskDetail, now time.Time) []string {
	lines := []string{field("id", t.ID), field("type", view.OrDash(t.Type)), field("status", string(t.Status)), field("node", view.OrDash(t.Node))}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, field(name, value))
		}
	}
	if t.Token != 0 {
		add("token", strconv.FormatInt(t.Token, 10))
	}
	since := func(name string, at *time.Time) {
		if at != nil {
			add(name, view.Ago(at, now))
		}
	}
	since("submitted", t.SubmittedAt)
	since("claimed", t.ClaimedAt)
	since("ended", t.FinishedAt)
	if t.Until != nil {
		add("until", t.Until.UTC().Format(time.RFC3339))
	}
	if t.Priority != 0 {
		add("priority", strconv.Itoa(t.Priority))
	}
	add("restarts", view.Restarts(t.Restarts, now))
	add("blocked by", t.WaitsFor())
	add("properties", string(t.Props))
	add("result", string(t.Result))
	for _, e := range t.Errors {
		add("error", e.Timestamp.UTC().Format(time.RFC3339)+" "+e.Error)
	}
	return lines
}

func explain(e inspect.Explanation) []string {
	lines := []string{"", field("why", e.Why)}
	for _, n := range e.Nodes {
		lines = append(lines, field("node", n.Node+": "+view.Verdict(e, n)))
	}
	return lines
}

// recount lists what happened, the latest first.
func recount(h statemachine.History) []string {
	lines := []string{"", field("history", fmt.Sprintf("%d claim(s), %d interruption(s), the latest first", h.Claims, h.Interruptions))}
	for _, e := range slices.Backward(h.Entries) {
		text := fmt.Sprintf("  %s  %-12s %s  %s", e.At.UTC().Format(time.RFC3339), view.EventName(e), view.OrDash(e.Node), e.Detail)
		lines = append(lines, view.Printable(strings.TrimRight(text, " ")))
	}
	return lines
}
