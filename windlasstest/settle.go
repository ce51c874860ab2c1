package windlasstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
)

// settleStep is the pause between checks of a condition.
const settleStep = 50 * time.Millisecond

// WaitUntil lets time pass until a condition holds, and returns how long that took. It
// fails the test if that takes longer than within.
func (c *Cluster) WaitUntil(within time.Duration, what string, holds func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	c.Advance(0)
	for !holds() {
		if time.Since(start) >= within {
			c.fatalf("not within %v: %s", within, what)
		}
		c.Advance(settleStep)
	}
	return time.Since(start)
}

// WaitFor lets time pass until a task has a status, and returns the task. It fails the
// test if that takes longer than within.
func (c *Cluster) WaitFor(within time.Duration, task string, status windlass.Status) windlass.TaskDetail {
	c.t.Helper()
	for start := time.Now(); ; c.Advance(settleStep) {
		c.Advance(0)
		detail, err := c.client.Task(c.t.Context(), task)
		switch {
		case err == nil && detail.Status == status:
			return detail
		case err != nil && !errors.Is(err, windlass.ErrNotFound):
			c.t.Fatal(err)
		case time.Since(start) >= within:
			c.fatalf("not within %v: %q is %s; %s, with the runs %v", within, task, status, describe(detail, err), c.Runs(task))
		}
	}
}

// describe describes a task, if it exists.
func describe(detail windlass.TaskDetail, err error) string {
	if err != nil {
		return "there is no such task"
	}
	text := "it is " + string(detail.Status)
	if n := len(detail.Errors); n > 0 {
		text += fmt.Sprintf(" after %d errors, the last of them %q", n, detail.Errors[n-1].Error)
	}
	return text
}

// Settle lets time pass until every task that can run does so on exactly one node,
// which is neither frozen nor partitioned, and returns how long that took. Tasks that
// are done, sleep, are paused, wait for others or are not due are left alone. If it
// takes longer than within, Settle fails the test and lists the tasks in a wrong state.
func (c *Cluster) Settle(within time.Duration) time.Duration {
	c.t.Helper()
	for start := time.Now(); ; c.Advance(settleStep) {
		c.Advance(0)
		amiss, err := c.Unsettled(c.t.Context())
		switch {
		case err != nil:
			c.t.Fatalf("settle: %v", err)
		case len(amiss) == 0:
			return time.Since(start)
		case time.Since(start) >= within:
			c.fatalf("not settled within %v: %s", within, strings.Join(amiss, "; "))
		}
	}
}

// amissMax limits the problems that Unsettled returns.
const amissMax = 10

// Unsettled returns a problem for each task that is not in the state that it should be
// in after a while without faults; at most the first ten.
func (c *Cluster) Unsettled(ctx context.Context) (amiss []string, err error) {
	tasks, err := c.client.Tasks(ctx, windlass.Filter{})
	if err != nil {
		return nil, err
	}
	live := c.records.live()
	for _, task := range tasks {
		if len(amiss) == amissMax {
			return amiss, nil
		}
		what := unsettled(task, live[task.ID])
		if task.Status == windlass.StatusPending {
			what = c.whyPending(task)
		}
		if what != "" {
			amiss = append(amiss, what)
		}
		delete(live, task.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		amiss = append(amiss, fmt.Sprintf("%q runs and does not exist", id))
	}
	return amiss[:min(len(amiss), amissMax)], nil
}

// unsettled compares the stored state of a task with its live runs.
func unsettled(task windlass.TaskInfo, live []record) string {
	switch {
	case task.Status != windlass.StatusRunning && len(live) > 0:
		return fmt.Sprintf("%q is %s and has the runs %v", task.ID, task.Status, live)
	case task.Status != windlass.StatusRunning:
		return ""
	case len(live) != 1 || live[0].Token != task.Token:
		return fmt.Sprintf("%q is held by %s with token %d and has the runs %v", task.ID, task.Node, task.Token, live)
	}
	if trouble := live[0].node.trouble(); trouble != "" {
		return fmt.Sprintf("%q runs on %s, which is %s", task.ID, task.Node, trouble)
	}
	return ""
}

// whyPending says what is wrong with a task without a holder, nothing if it is not due.
func (c *Cluster) whyPending(task windlass.TaskInfo) string {
	if task.NotBefore.After(time.Now()) {
		return ""
	}
	for _, n := range c.nodes {
		if n.handles(task.Type) {
			return fmt.Sprintf("%q is pending", task.ID)
		}
	}
	return fmt.Sprintf("%q is pending, and no node that lives has a handler for the type %q", task.ID, task.Type)
}

// Holder returns the node on which the handler of a task runs. It fails the test if
// there is not exactly one: call Settle first.
func (c *Cluster) Holder(task string) *Node {
	c.t.Helper()
	live := c.records.live()[task]
	if len(live) != 1 {
		detail, err := c.client.Task(c.t.Context(), task)
		c.fatalf("%d handlers of %q run, not one: %s, with the runs %v", len(live), task, describe(detail, err), c.Runs(task))
	}
	return live[0].node
}

// fatalf fails the test with a message and the condition of the nodes.
func (c *Cluster) fatalf(format string, args ...any) {
	c.t.Helper()
	text := fmt.Sprintf(format, args...)
	registered := map[string]windlass.NodeStatus{}
	if statuses, err := c.client.Nodes(c.t.Context()); err == nil { // an error is not why the test fails
		for _, s := range statuses {
			if s.AwayUntil.IsZero() {
				registered[s.Name] = s
			}
		}
	}
	last := map[string]*Node{}
	for _, n := range c.nodes {
		last[n.Name()] = n
	}
	for _, n := range c.nodes {
		if last[n.Name()] == n {
			status, joined := registered[n.Name()]
			text += fmt.Sprintf("\n    node %s %s", n.Name(), n.describe(status, joined))
		}
	}
	c.t.Fatal(text)
}

// describe returns the condition of the node; joined is set if it is registered.
func (n *Node) describe(status windlass.NodeStatus, joined bool) string {
	if trouble := n.trouble(); trouble != "" {
		return "is " + trouble
	}
	switch {
	case n.hasEnded():
		return fmt.Sprintf("ended by itself: %v", n.err)
	case !joined:
		return "has not joined"
	case status.Draining:
		return "is draining"
	case status.Frozen:
		return "was told to claim nothing"
	}
	return fmt.Sprintf("holds %d tasks", status.Tasks)
}
