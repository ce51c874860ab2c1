package windlass

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

// SubmitPlan says what submissions would do. Its JSON is stable.
type SubmitPlan struct {
	// Effects has the number of submissions for each effect. Those with errors have none.
	Effects map[Effect]int `json:"effects"`
	// Nodes says how many of the new tasks each node would claim, by name. Nodes that would
	// claim none are left out.
	Nodes []PlannedShare `json:"nodes"`
	// Waits is the number of new tasks that would wait, and Waiting has the reasons, those of
	// the most tasks first, at most PlannedWaitsMax of them.
	Waits   int           `json:"waits"`
	Waiting []PlannedWait `json:"waiting"`
}

// PlannedWaitsMax limits SubmitPlan.Waiting.
const PlannedWaitsMax = 20

// PlannedShare is a number of tasks that a node would claim. Its JSON is stable.
type PlannedShare struct {
	Node  string `json:"node"`
	Tasks int    `json:"tasks"`
}

// PlannedWait is a reason why tasks would wait. Its JSON is stable.
type PlannedWait struct {
	// Why is the reason, as Client.Explain gives it.
	Why string `json:"why"`
	// Tasks is how many would wait for it, and First the ID of one of them.
	Tasks int    `json:"tasks"`
	First string `json:"first"`
	// Nodes says for every node why it cannot run that one, if no node can.
	Nodes []NodeVerdict `json:"nodes"`
}

// PlanSubmit returns what SubmitAll would do with any number of tasks, where those that are
// new, or run again, would run, and why others would wait. It changes nothing. The errors are
// those that SubmitAll would return, in order, if it got all of them at once. The decisions
// of nodes with their own balancers are not known.
func (c *Client) PlanSubmit(ctx context.Context, submissions []Submission) (SubmitPlan, []error, error) {
	errs, effects := make([]error, len(submissions)), make([]Effect, len(submissions))
	open := c.prepare(ctx, submissions, effects, errs)
	open = c.refuseLayout(ctx, open, errs)
	open = c.refuseCycles(ctx, open, errs)
	order := newLine(submissions, errs)
	open = slices.DeleteFunc(open, func(s *submitting) bool { return errs[s.index] != nil })
	var news []*submitting // and those that run again
	for some := range slices.Chunk(open, submitChunk) {
		for i, r := range c.readSubmitted(ctx, some) {
			if r.Err != nil {
				return SubmitPlan{}, nil, fmt.Errorf("plan to submit task %q: %w", some[i].ID, r.Err)
			}
			if some[i].wouldSubmit(r, errs) && some[i].updates == nil {
				news = append(news, some[i])
			}
		}
	}
	for next := order.Next(submitChunk); len(next) > 0; next = order.Next(submitChunk) {
		order.settle(next)
	}
	news = slices.DeleteFunc(news, func(s *submitting) bool { return errs[s.index] != nil })
	s, err := c.survey(ctx)
	if err != nil {
		return SubmitPlan{}, nil, fmt.Errorf("plan to submit: %w", err)
	}
	plan := s.planSubmit(news)
	for i, effect := range effects {
		if errs[i] == nil {
			plan.Effects[effect]++
		}
	}
	return plan, errs, nil
}

// wouldSubmit finds out from what is stored what a submission would do, and reports whether
// it would write.
func (s *submitting) wouldSubmit(r broker.Result, errs []error) bool {
	err, writes := s.refused(r.Reads, r.Revision)
	if !writes {
		errs[s.index] = err // nil if it changes nothing
		return false
	}
	*s.effect = s.done()
	return true
}

// planSubmit places tasks as if they had been submitted.
func (s *survey) planSubmit(news []*submitting) SubmitPlan {
	plan := SubmitPlan{Effects: map[Effect]int{}, Nodes: []PlannedShare{}, Waiting: []PlannedWait{}}
	for _, n := range news {
		s.add(n)
	}
	now := time.Now()
	targets := map[string]string{}
	for t, node := range s.plan(now) {
		if s.paused(s.kinds.OfTask(t).Class.Type) == nil {
			targets[t.ID] = node
		}
	}
	for id, node := range targets { // so that those which wait find it full
		if node != "" {
			s.tally.Add(node, s.kinds.OfTask(s.tasks.Get(id)).Class, 1)
		}
	}
	shares, waits := map[string]int{}, map[string]*PlannedWait{}
	for _, n := range news {
		if node := targets[n.ID]; node != "" {
			shares[node]++
			continue
		}
		plan.Waits++
		s.addWait(waits, s.tasks.Get(n.ID), now)
	}
	for node, tasks := range shares {
		plan.Nodes = append(plan.Nodes, PlannedShare{Node: node, Tasks: tasks})
	}
	slices.SortFunc(plan.Nodes, func(a, b PlannedShare) int { return strings.Compare(a.Node, b.Node) })
	for _, w := range slices.SortedFunc(maps.Values(waits), func(a, b *PlannedWait) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), strings.Compare(a.First, b.First))
	}) {
		plan.Waiting = append(plan.Waiting, *w)
	}
	plan.Waiting = plan.Waiting[:min(len(plan.Waiting), PlannedWaitsMax)]
	return plan
}

// add puts a new task into the survey as a submission would into the broker.
func (s *survey) add(n *submitting) {
	at := s.tasks.Revision() + 1
	s.tasks.Apply(broker.Batch{Revision: at, Events: []broker.Event{
		{KV: broker.KV{Key: s.space.State(n.ID), Modified: at}, Deleted: true},
		{KV: broker.KV{Key: s.space.Failed(n.ID), Modified: at}, Deleted: true},
		{KV: broker.KV{Key: s.space.Task(n.ID), Value: n.spec, Created: at, Modified: at}},
	}})
}

// addWait counts a task that waits, by its reason: if no node takes it, by each node's; all
// that wait for other tasks are one.
func (s *survey) addWait(waits map[string]*PlannedWait, t *mirror.Task, now time.Time) {
	k := s.kinds.OfTask(t)
	e := Explanation{ID: t.ID, Status: StatusPending, Blocked: blockedBy(k.Blockers(t.ID), s.tasks, blockersShown)}
	if s.explain(&e, t, "", now); s.paused(k.Class.Type) != nil {
		e.Why = typePaused(s.paused(k.Class.Type))
	}
	verdicts, reason := []NodeVerdict{}, e.Why
	switch {
	case e.Why == whyNoNode:
		verdicts = s.verdicts(t, "")
		for _, v := range verdicts {
			reason += "\n" + v.Why
		}
	case len(e.BlockedBy) > 0 && len(e.FailedNeeds) == 0:
		reason = "blocked"
	}
	if waits[reason] == nil {
		waits[reason] = &PlannedWait{Why: e.Why, First: t.ID, Nodes: verdicts}
	}
	waits[reason].Tasks++
}
