package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/placement"
	"github.com/windlass-go/windlass/statemachine"
)

// Explanation says why a task does not run, or why it runs where it does. Its JSON is
// stable.
type Explanation struct {
	ID     string          `json:"id"`
	Status windlass.Status `json:"status"`
	// Node holds the task, or held it last if the task has ended. It is empty for a
	// live task that no node holds.
	Node string `json:"node"`
	// Why is the answer in one sentence.
	Why string `json:"why"`
	// Decision is the reason that the node recorded with its claim. Empty without a
	// claim.
	Decision  string     `json:"decision"`
	ClaimedAt *time.Time `json:"claimed_at"`
	windlass.Blocked
	// Cycle is the path from the task back to itself, if it waits for itself.
	Cycle []string `json:"cycle,omitempty"`
	// Until is the earliest time it can run, for a task that sleeps, backs off after an
	// error or is not due.
	Until *time.Time `json:"until"`
	// Errors is the number of errors in a row, LastError the last one.
	Errors    int    `json:"errors"`
	LastError string `json:"last_error"`
	// Deaths names the nodes that have died within the last hour while they held the task,
	// the latest first, unless another task is to blame.
	Deaths []string `json:"deaths,omitempty"`
	// Nodes says for every registered node whether it could run the task. It is empty
	// for a task that has ended.
	Nodes []Verdict `json:"nodes"`
}

// Verdict says whether a node could run a task. Its JSON is stable.
type Verdict struct {
	Node string `json:"node"`
	// Takes is true if the node could claim the task now.
	Takes bool `json:"takes"`
	// Why names the rule that keeps the node from claiming it, or the node's relation
	// to the task.
	Why string `json:"why"`
}

// Explain explains, from the data stored now, why a task does not run or why it runs
// where it does. It returns windlass.ErrNotFound if there is no such task.
func (i *Inspector) Explain(ctx context.Context, id string) (Explanation, error) {
	detail, err := i.client.Task(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		ID: id, Status: detail.Status, Node: detail.Node, ClaimedAt: detail.ClaimedAt, Blocked: detail.Blocked,
		Until: detail.Until, Errors: len(detail.Errors), Nodes: []Verdict{},
	}
	if n := len(detail.Errors); n > 0 {
		e.LastError = detail.Errors[n-1].Error
	}
	if detail.State != nil {
		e.Errors = max(e.Errors, detail.State.Failures)
	}
	if statemachine.State(detail.Status).Terminal() {
		e.Why = fmt.Sprintf("it is %s; it ran on node %s", detail.Status, detail.Node)
		if detail.Status == windlass.StatusFailed && e.LastError != "" {
			e.Why += ": " + shorten.To(e.LastError, 200)
		}
		return e, nil
	}
	s, err := i.survey(ctx)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain task %q: %w", id, err)
	}
	t := s.tasks.Get(id)
	if t == nil {
		return Explanation{}, fmt.Errorf("task %q: %w", id, windlass.ErrNotFound) // it has just gone
	}
	if e.Decision, err = i.decision(ctx, id); err != nil {
		return Explanation{}, fmt.Errorf("explain task %q: %w", id, err)
	}
	now := time.Now()
	for _, d := range s.book.Deaths(id, t.Created, now) {
		e.Deaths = append(e.Deaths, d.Node)
	}
	target := s.target(t, now)
	e.Nodes, e.Cycle = s.verdicts(t, target), s.cycle(t)
	s.explain(&e, t, target, now)
	if !detail.SilentSince.IsZero() {
		e.Why = fmt.Sprintf("%s holds it, and %s, and nobody has ended its session yet. "+
			"A node does that once it has been there for a session TTL", detail.Node, silentFor(detail.SilentSince, now))
	}
	if p := s.paused(detail.Type); p != nil {
		why := e.Why
		if e.Why = typePaused(p); detail.State == nil || !detail.State.TypePaused {
			e.Why += "; " + why
		}
	}
	if len(e.Deaths) > 0 {
		e.Why += fmt.Sprintf("; within the last hour %d node(s) died that held it: %s", len(e.Deaths), strings.Join(e.Deaths, ", "))
	}
	return e, nil
}

// decision reads the reason why the holder of a task claimed it.
func (i *Inspector) decision(ctx context.Context, id string) (string, error) {
	kv, err := i.broker.Get(ctx, i.space.Claim(id))
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	var record coordinator.Record
	_ = json.Unmarshal(kv.Value, &record) // an unreadable record explains nothing
	return record.Reason, nil
}

const whyNoNode = "no node can take it; see each"

// explain answers why, given the task's cycle and the node that the plan assigns it to, empty
// for none.
func (s *survey) explain(e *Explanation, t *mirror.Task, target string, now time.Time) {
	k := s.kinds.OfTask(t)
	may := k.Claimable(t, k.Blockers(t.ID), s.tasks, now)
	switch {
	case k.Err != nil:
		e.Why = "its spec cannot be read: " + k.Err.Error()
	case may.Skipped != "":
		e.Why = "it is to be killed, because " + may.Skipped + ", which it waits for, failed or was killed and has those skipped that wait for it"
		if target == "" {
			e.Why += "; a node has to claim it for that, and none can: see each"
		}
	case e.Status == windlass.StatusFault:
		e.Why = "what is stored about it cannot be read, or its handler failed and nobody has decided what follows: " + e.LastError
	case e.Status == windlass.StatusSleeping && e.Errors > 0 && e.Until != nil:
		e.Why = fmt.Sprintf("it backs off until %s after %d error(s) in a row, the last: %s", e.Until.Format(time.RFC3339), e.Errors, shorten.To(e.LastError, 80))
	case e.Status == windlass.StatusSleeping && e.Until != nil:
		e.Why = "it sleeps until " + e.Until.Format(time.RFC3339)
	case e.Status == windlass.StatusPaused:
		e.Why = "it is paused"
	case t.Owned() && e.Decision == "":
		e.Why = "it runs on node " + t.Owner
	case t.Owned():
		e.Why = "it runs on node " + t.Owner + ", which claimed it because: " + e.Decision
	case !may.Until.IsZero():
		e.Until = &may.Until
		e.Why = "it is not due before " + may.Until.Format(time.RFC3339)
	case len(e.FailedNeeds) > 0:
		e.Why = "it waits for " + e.WaitsFor() + " or was killed: run that again with task retry, or forget it with task prune --unblock"
	case len(e.Cycle) > 0:
		e.Why = "it waits for itself: " + strings.Join(e.Cycle, " → ") + "; delete one of them with unblock, or submit it again with other needs"
	case len(e.BlockedBy) > 0:
		e.Why = "it waits for " + e.WaitsFor()
	case s.book.OpenAt(t.ID, t.Created, now).After(now):
		at := s.book.OpenAt(t.ID, t.Created, now)
		e.Until = &at
		e.Why = "it may have killed its node, and is started again apart from other suspects, not before " + at.Format(time.RFC3339)
	case t.For != "" && (t.For == target || s.takes(t.For, t)):
		e.Why = "it is being moved to node " + t.For
	case s.keptFor(t, now) != nil:
		a := s.keptFor(t, now)
		e.Until = &a.Until
		e.Why = fmt.Sprintf("it is kept for node %s, which held it last, is away and is to be back by %s; another claims it after that, or once %s is cordoned",
			a.Name, a.Until.Format(time.RFC3339), a.Name)
	case len(s.nodes) == 0:
		e.Why = "there is no node"
	case target == "":
		e.Why = whyNoNode
	default:
		e.Why = "node " + target + " is to claim it, at any moment; another will if it does not"
	}
}

// plan yields the open tasks in their turn, each with the node that it is assigned to, empty
// for none.
func (s *survey) plan(now time.Time) iter.Seq2[*mirror.Task, string] {
	return func(yield func(*mirror.Task, string) bool) {
		open := s.open(now, func(kind.Answer) bool { return true })
		plan := placement.New(s.view(open))
		for _, o := range open {
			if !yield(o, plan.Take(o.ID, s.kinds.OfTask(o).Class)) {
				return
			}
		}
	}
}

// target returns the node that the plan assigns an open task to; empty for none.
func (s *survey) target(t *mirror.Task, now time.Time) string {
	for o, node := range s.plan(now) {
		if o.ID == t.ID {
			return node
		}
	}
	return ""
}

// verdicts says of each node whether it could run a task.
func (s *survey) verdicts(t *mirror.Task, target string) []Verdict {
	verdicts := []Verdict{} // [] in JSON for none
	for i := range s.nodes {
		verdicts = append(verdicts, s.verdict(&s.nodes[i], t, target))
	}
	for _, a := range s.away {
		verdicts = append(verdicts, Verdict{Node: a.Name, Why: "it is away, and is to be back by " + a.Until.Format(time.RFC3339)})
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	return verdicts
}

// takes reports whether a node is there and could claim a task.
func (s *survey) takes(node string, t *mirror.Task) bool {
	return slices.ContainsFunc(s.nodes, func(n windlass.NodeInfo) bool { return n.Name == node && s.verdict(&n, t, "").Takes })
}

// silentFor says that a node is not renewed.
func silentFor(since, now time.Time) string {
	return fmt.Sprintf("has not renewed its session for %v: it is dead or cut off", now.Sub(since).Truncate(time.Second))
}

// verdict says whether a node could run a task.
func (s *survey) verdict(n *windlass.NodeInfo, t *mirror.Task, target string) Verdict {
	placed, class := s.placed(n), s.kinds.OfTask(t).Class
	v := Verdict{Node: n.Name}
	holds := s.tally.Of(n.Name)
	weight, full := holds.Weight, placed.Full(class, holds)
	switch why := placed.Excludes(class); {
	case t.Owner == n.Name && t.Owned():
		v.Why = "it holds the task"
	case !s.silent[n.Name].IsZero():
		v.Why = "it " + silentFor(s.silent[n.Name], time.Now())
	case why != "":
		v.Why = why
	case placed.Closed != "":
		v.Why = "it is " + placed.Closed + " and takes no tasks" + madeBy(s.cordons[n.Name])
	case n.Capacity > 0 && weight+class.Weight > n.Capacity:
		v.Why = fmt.Sprintf("it is full: it has a capacity of %d and holds %d, and the task weighs %d", n.Capacity, weight, class.Weight)
	case full != "":
		v.Why = full
	case n.Name == target:
		v.Takes, v.Why = true, "it is to claim the task"
	default:
		v.Takes, v.Why = true, fmt.Sprintf("it could run the task, and holds a weight of %d", weight)
	}
	if v.Takes && n.Behind != "" {
		v.Why += "; within the last half minute it saw what others do " + n.Behind + " late or more, and while it does it claims nothing in their stead"
	}
	return v
}

// madeBy says who made a cordon and why, empty if that is not known or there is none.
func madeBy(s *windlass.Suspension) string {
	switch {
	case s == nil || s.By == "" && s.Reason == "":
		return ""
	case s.Reason == "":
		return " (by " + s.By + ")"
	case s.By == "":
		return " (" + s.Reason + ")"
	}
	return " (by " + s.By + ": " + s.Reason + ")"
}

func typePaused(p *windlass.Suspension) string { return "its type is paused " + p.String() }
