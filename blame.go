package windlass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/mirror"
)

// blame fails a task that is to blame for deaths, and reports whether it is.
func (in *incarnation) blame(r *run) bool {
	d := in.deaths.Blamed(r.claim.held.ID, r.claim.held.Created)
	if d == nil || r.asleepFrom != 0 { // nor did it run when its last node died
		return false
	}
	var nodes []string
	for _, of := range in.deaths.Deaths(r.claim.held.ID, r.claim.held.Created, time.Now()) {
		if len(nodes) < d.Count {
			nodes = append(nodes, of.Node)
		}
	}
	slices.Reverse(nodes)
	in.fault(r, Permanent(fmt.Errorf(deaths.SetAside+" %d times, on %s", d.Count, strings.Join(nodes, ", "))))
	return true
}

// apart returns the time before which a task is not to be claimed because its last claim
// has ended, or may have, with the death of its node.
func (in *incarnation) apart(t *mirror.Task, now time.Time) time.Time {
	if in.fleet.Braked(t.Last, now) {
		return time.Time{} // most nodes vanished at once, which is no task's doing
	}
	return in.deaths.Apart(t, in.busyWith, now)
}

// bringBack brings back what was set aside wrongly, and then takes the blame out of the
// record: until that is done, it is done again by whichever node has been there for longest.
func (in *incarnation) bringBack(ctx context.Context, incarnations []string, all []deaths.Refuted) (then func()) {
	r := all[0]
	err := in.node.runAgain(ctx, r)
	if err == nil {
		err = commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, []broker.Txn{
			r.Death.Rewrite(in.node.space.NodeDeath(r.Death.Node, r.Death.Incarnation)),
		})
	}
	return func() {
		in.troubleIf(err, "bring back a task that was set aside wrongly")
		if err != nil {
			in.out.refuted.Put(incarnations[0], r, time.Now().Add(retryEnd))
		}
	}
}

// runAgain runs a task again that was set aside wrongly and is that still, from where it had
// come. It returns only errors that may pass.
func (n *Node) runAgain(ctx context.Context, r deaths.Refuted) error {
	client, err := NewClient(n.config.Broker, n.config.Namespace)
	if err != nil {
		return err // cannot be: the node has the same configuration
	}
	detail, err := client.Task(ctx, r.Task)
	if err == nil && detail.Status == StatusFailed && detail.Token > int64(r.Token) && strings.HasPrefix(detail.LastError(), deaths.SetAside) {
		if err = client.Rerun(ctx, Rerun{KeepProgress: true}, r.Task)[0]; err == nil {
			edit.AddNotes(ctx, n.config.Broker, n.space, map[string]edit.Note{r.Task: {
				Text: fmt.Sprintf("continue, by node %s: it was set aside wrongly, as %s explains the deaths", n.config.Name, r.By), Ended: detail.Token,
			}})
			n.events.BroughtBack(r.Task, r.By)
		}
	}
	if err == nil || broker.Temporary(err) || broker.MaybeApplied(err) {
		return err
	}
	n.events.BrokerTrouble(fmt.Errorf("task %q was set aside wrongly, and is not run again: %w", r.Task, err))
	return nil
}
