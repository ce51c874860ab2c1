package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
)

// SubmitPlan says what submissions would do. Its JSON is stable.
type SubmitPlan struct {
	// Effects has the number of submissions for each effect. Those with errors have none.
	Effects map[windlass.Effect]int `json:"effects"`
	// Nodes says how many of the new tasks each node would claim, by name. Nodes that would
	// claim none are left out.
	Nodes []PlannedShare `json:"nodes"`
	// Waits is the number of new tasks that would wait, and Waiting has the reasons, those of
	// the most tasks first, at most WaitsMax of them.
	Waits   int           `json:"waits"`
	Waiting []PlannedWait `json:"waiting"`
}

// WaitsMax limits SubmitPlan.Waiting.
const WaitsMax = 20

// PlannedShare is a number of tasks that a node would claim. Its JSON is stable.
type PlannedShare struct {
	Node  string `json:"node"`
	Tasks int    `json:"tasks"`
}

// PlannedWait is a reason why tasks would wait. Its JSON is stable.
type PlannedWait struct {
	// Why is the reason, as Inspector.Explain gives it.
	Why string `json:"why"`
	// Tasks is how many would wait for it, and First the ID of one of them.
	Tasks int    `json:"tasks"`
	First string `json:"first"`
	// Nodes says for every node why it cannot run that one, if no node can.
	Nodes []Verdict `json:"nodes"`
}

// PlanSubmit returns what Client.SubmitAll would do with any number of tasks, where those that are
// new, or run again, would run, and why others would wait. It changes nothing. The errors are
// those that SubmitAll would return, in order, if it got all of them at once. The decisions
// of nodes with their own balancers are not known.
func (i *Inspector) PlanSubmit(ctx context.Context, submissions []windlass.Submission) (SubmitPlan, []error, error) {
	effects, errs, err := i.client.Preview(ctx, submissions)
	if err != nil {
		return SubmitPlan{}, nil, err
	}
	s, err := i.survey(ctx)
	if err != nil {
		return SubmitPlan{}, nil, fmt.Errorf("plan to submit: %w", err)
	}
	var news []string // and those that run again
	for n, effect := range effects {
		if errs[n] != nil || effect != windlass.EffectCreated && effect != windlass.EffectRerun {
			continue
		}
		if err := s.add(&submissions[n]); err != nil {
			return SubmitPlan{}, nil, fmt.Errorf("plan to submit task %q: %w", submissions[n].ID, err)
		}
		news = append(news, submissions[n].ID)
	}
	plan := s.planSubmit(news)
	for n, effect := range effects {
		if errs[n] == nil {
			plan.Effects[effect]++
		}
	}
	return plan, errs, nil
}

// planSubmit places tasks as if they had been submitted.
func (s *survey) planSubmit(news []string) SubmitPlan {
	plan := SubmitPlan{Effects: map[windlass.Effect]int{}, Nodes: []PlannedShare{}, Waiting: []PlannedWait{}}
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
	for _, id := range news {
		if node := targets[id]; node != "" {
			shares[node]++
			continue
		}
		plan.Waits++
		s.addWait(waits, s.tasks.Get(id), now)
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
	plan.Waiting = plan.Waiting[:min(len(plan.Waiting), WaitsMax)]
	return plan
}

// add puts a new task into the survey as a submission would into the broker.
func (s *survey) add(n *windlass.Submission) error {
	stored := n.Spec
	stored.SubmittedAt, stored.Digest, stored.Turn = time.Now(), "new", 0 // so that what is alike is one kind
	spec, err := json.Marshal(&stored)
	if err != nil {
		return err
	}
	at := s.tasks.Revision() + 1
	s.tasks.Apply(broker.Batch{Revision: at, Events: []broker.Event{
		{KV: broker.KV{Key: s.space.State(n.ID), Modified: at}, Deleted: true},
		{KV: broker.KV{Key: s.space.Failed(n.ID), Modified: at}, Deleted: true},
		{KV: broker.KV{Key: s.space.Task(n.ID), Value: spec, Created: at, Modified: at}},
	}})
	return nil
}

// addWait counts a task that waits, by its reason: if no node takes it, by each node's; all
// that wait for other tasks are one.
func (s *survey) addWait(waits map[string]*PlannedWait, t *mirror.Task, now time.Time) {
	k := s.kinds.OfTask(t)
	e := Explanation{ID: t.ID, Status: windlass.StatusPending, Blocked: s.blocked(t)}
	if s.explain(&e, t, "", now); s.paused(k.Class.Type) != nil {
		e.Why = typePaused(s.paused(k.Class.Type))
	}
	verdicts, reason := []Verdict{}, e.Why
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

// blockersShown is how many of the tasks that one waits for are named.
const blockersShown = 20

func (s *survey) blocked(t *mirror.Task) windlass.Blocked {
	w := kind.Waits(s.kinds.OfTask(t).Blockers(t.ID), s.tasks, blockersShown)
	return windlass.Blocked{BlockedBy: w.By, BlockedByCount: w.Count, FailedNeeds: w.Failed, FailedNeedsCount: w.FailedCount}
}
