package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/placement"
	"github.com/windlass-go/windlass/statemachine"
)

// Explanation says why a task does not run, or why it runs where it does. Its
// JSON is stable.
type Explanation struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// Node holds the task, or held it last.
	Node string `json:"node"`
	// Why is the answer in a sentence.
	Why string `json:"why"`
	// Decision is what the node recorded with its claim: why it claimed. Empty
	// without a claim.
	Decision  string     `json:"decision"`
	ClaimedAt *time.Time `json:"claimed_at"`
	// BlockedBy are the tasks that it waits for.
	BlockedBy []string `json:"blocked_by"`
	// FailedNeeds are those of them that have failed or were killed.
	FailedNeeds []string `json:"failed_needs,omitempty"`
	// Cycle is the way from the task back to itself, if it waits for itself.
	Cycle []string `json:"cycle,omitempty"`
	// Until is when it can run at the earliest, for a task that sleeps, backs off
	// after an error or is not due.
	Until *time.Time `json:"until"`
	// Errors are how many errors there were in a row, and LastError is the last.
	Errors    int    `json:"errors"`
	LastError string `json:"last_error"`
	// Nodes says of every registered node whether it could run the task. It is
	// empty for a task that has ended.
	Nodes []NodeVerdict `json:"nodes"`
}

// NodeVerdict says whether a node could run a task. Its JSON is stable.
type NodeVerdict struct {
	Node string `json:"node"`
	// Takes tells that it could claim it now.
	Takes bool `json:"takes"`
	// Why names the rule that keeps it from that, or what it is to the task.
	Why string `json:"why"`
}

// Explain says why a task does not run, or why it runs where it does, by what is
// stored now; or ErrNotFound.
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	detail, err := c.Task(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		ID: id, Status: detail.Status, Node: detail.Node, ClaimedAt: detail.ClaimedAt, BlockedBy: detail.BlockedBy, FailedNeeds: detail.FailedNeeds,
		Until: detail.Until, Errors: len(detail.Errors), Nodes: []NodeVerdict{},
	}
	if n := len(detail.Errors); n > 0 {
		e.LastError = detail.Errors[n-1].Error
	}
	if detail.State != nil {
		e.Errors = max(e.Errors, detail.State.Failures)
	}
	if statemachine.State(detail.Status).Terminal() {
		e.Why = fmt.Sprintf("it is %s; it ran on node %s", detail.Status, detail.Node)
		return e, nil
	}
	s, err := c.survey(ctx)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain task %q: %w", id, err)
	}
	t := s.tasks.Get(id)
	if t == nil {
		return Explanation{}, fmt.Errorf("task %q: %w", id, ErrNotFound) // it has just gone
	}
	if e.Decision, err = c.decision(ctx, id); err != nil {
		return Explanation{}, fmt.Errorf("explain task %q: %w", id, err)
	}
	s.explain(&e, t, time.Now())
	return e, nil
}

// decision reads why the holder of a task claimed it.
func (c *Client) decision(ctx context.Context, id string) (string, error) {
	kv, err := c.broker.Get(ctx, c.space.Claim(id))
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	var record coordinator.Record
	_ = json.Unmarshal(kv.Value, &record) // what cannot be read explains nothing
	return record.Reason, nil
}

func (s *survey) explain(e *Explanation, t *mirror.Task, now time.Time) {
	k := s.kinds.OfTask(t)
	may, err := s.claimable(t, now)
	e.Cycle = s.cycle(t)
	target := s.target(t, now)
	for i := range s.nodes {
		e.Nodes = append(e.Nodes, s.verdict(&s.nodes[i], t, target))
	}
	switch {
	case k.Err != nil:
		e.Why = "its spec cannot be read: " + k.Err.Error()
	case may.Skipped != "":
		e.Why = "it is to be killed, because " + may.Skipped + ", which it waits for, failed or was killed and has those skipped that wait for it"
		if target == "" {
			e.Why += "; a node has to claim it for that, and none can: see each"
		}
	case e.Status == StatusFault:
		e.Why = "what is stored about it cannot be read, or its handler failed and nobody has decided what follows: " + e.LastError
	case e.Status == StatusSleeping && e.Errors > 0 && e.Until != nil:
		e.Why = fmt.Sprintf("it backs off until %s after %d error(s) in a row, the last: %s", e.Until.Format(time.RFC3339), e.Errors, shorten.To(e.LastError, 80))
	case e.Status == StatusSleeping && e.Until != nil:
		e.Why = "it sleeps until " + e.Until.Format(time.RFC3339)
	case e.Status == StatusPaused:
		e.Why = "it is paused"
	case t.Owned() && e.Decision == "":
		e.Why = "it runs on node " + t.Owner
	case t.Owned():
		e.Why = "it runs on node " + t.Owner + ", which claimed it because: " + e.Decision
	case err != nil:
		e.Why = "it can never be claimed: it " + err.Error()
	case !may.Until.IsZero():
		e.Until = &may.Until
		e.Why = "it is not due before " + may.Until.Format(time.RFC3339)
	case len(e.FailedNeeds) > 0:
		e.Why = "it waits for " + strings.Join(e.FailedNeeds, ", ") + ", which failed or was killed: submit that again, or forget it with task prune --unblock"
	case len(e.Cycle) > 0:
		e.Why = "it waits for itself: " + strings.Join(e.Cycle, " → ") + "; delete one of them, or submit it again with other needs"
	case len(e.BlockedBy) > 0:
		e.Why = "it waits for " + strings.Join(e.BlockedBy, ", ")
	case t.For != "":
		e.Why = "it is being moved to node " + t.For
	case len(s.nodes) == 0:
		e.Why = "there is no node"
	case target == "":
		e.Why = "no node can take it; see each"
	default:
		e.Why = "node " + target + " is to claim it, at any moment; another will if it does not"
	}
}

// target is the node that the plan gives an open task to; empty for none.
func (s *survey) target(t *mirror.Task, now time.Time) string {
	open := s.open(now, func(kind.Answer) bool { return true })
	plan := placement.New(s.view(open))
	for _, o := range open {
		if node := plan.Take(o.ID, s.kinds.OfTask(o).Class); o.ID == t.ID {
			return node
		}
	}
	return ""
}

// verdict says whether a node could run a task.
func (s *survey) verdict(n *NodeInfo, t *mirror.Task, target string) NodeVerdict {
	placed, class := n.placed(), s.kinds.OfTask(t).Class
	v := NodeVerdict{Node: n.Name}
	holds := s.tally.Of(n.Name)
	weight, full := holds.Weight, placed.Full(class, holds)
	switch why := placed.Excludes(class); {
	case t.Owner == n.Name && t.Owned():
		v.Why = "it holds the task"
	case why != "":
		v.Why = why
	case placed.Closed != "":
		v.Why = "it is " + placed.Closed + " and takes no tasks"
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
