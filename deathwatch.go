package windlass

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

// Limits of Retry.Deaths.
const (
	// DeathsDefault is how many deaths set a task aside by default.
	DeathsDefault = deaths.CountDefault
	// DeathsMax is the maximum of Retry.Deaths.
	DeathsMax = deaths.CountMax
)

// ProbationMax is the longest time for which a node that has died repeatedly is given nothing.
const ProbationMax = deaths.ProbationMax

// deathsLimit returns how many deaths set a task aside; zero means that no number does.
func (s *Spec) deathsLimit() int {
	switch {
	case s.Retry == nil || s.Retry.Deaths == 0:
		return DeathsDefault
	case s.Retry.Deaths < 0:
		return 0
	}
	return s.Retry.Deaths
}

// newDeaths returns the keeper of the records of deaths.
func (in *incarnation) newDeaths() *deaths.Keeper {
	return deaths.NewKeeper(deaths.Node{
		Name: in.config.Name, Space: in.node.space, TTL: in.session.Timing().TTL, Nodes: in.nodes, Tasks: in.tasks,
		Since:    func() broker.Revision { return in.infoCreated },
		Working:  func() bool { return in.stage == stageWorking },
		Survived: in.node.survived,
		Limit:    func(t *mirror.Task) int { return in.kinds.OfTask(t).Spec.deathsLimit() },
		Held: func(task string) (deaths.Held, bool) {
			r := in.runs[task]
			if r == nil {
				return deaths.Held{}, false
			}
			return deaths.Held{Token: r.claim.held.Token, Created: r.claim.held.Created, AsleepFrom: r.asleepFrom}, true
		},
		Put: in.out.deaths.Put,
	})
}

// survived reports whether an incarnation was one of this process.
func (n *Node) survived(incarnation string) bool { return slices.Contains(n.incarnations, incarnation) }

// nodeGone notes that a registration has gone, unless it was one that was to go.
func (in *incarnation) nodeGone(name string, gone mirror.Gone, now time.Time) {
	var info NodeInfo
	if json.Unmarshal(gone.Info, &info) != nil || info.leaving() {
		return
	}
	if in.node.space.Parse(in.node.space.NodeDeath(name, info.Incarnation)).Kind != keys.NodeDeath {
		return // another program has registered it
	}
	in.keepFor(name, gone.Info, &info, now)
	in.deaths.Gone(deaths.Gone{
		Name: name, Incarnation: info.Incarnation, Session: gone.Session, At: gone.At, TTL: holderTTL(gone.Info),
	}, now)
}

// readDeaths reads the records of deaths if they have changed, and records those that are known by now.
func (in *incarnation) readDeaths(now time.Time) {
	news := in.deaths.Read(now)
	in.board.Look(news.Look)
	for _, d := range news.Died {
		in.events.Died(d)
	}
	for _, id := range news.Release {
		in.stopRun(id, ErrReleased)
	}
	for _, r := range news.Refuted {
		in.out.refuted.Put(r.Death.Incarnation, r, now)
	}
	in.noteKept(in.deaths.RecordDied(now), now)
}

// recordDied stores records of deaths, and what this node answers to its own. All of
// them can be repeated.
func (in *incarnation) recordDied(ctx context.Context, of []string, txns []broker.Txn) (then func()) {
	err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns)
	return func() {
		in.troubleIf(err, "record the death of a node")
		for i := range of {
			if broker.Temporary(err) {
				in.out.deaths.Put(of[i], txns[i], time.Now().Add(retryEnd))
			}
		}
	}
}

// takeBack removes the records of deaths that this process has survived, while another has its
// name.
func (in *incarnation) takeBack(ctx context.Context) {
	txns, err := deaths.TakeBack(ctx, in.config.Broker, in.node.space, in.config.Name, in.node.survived)
	if err != nil {
		return // it is tried again once this node is registered
	}
	if err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns); err != nil {
		in.events.BrokerTrouble(err)
	}
}

// dead returns the incarnation of a registration under this node's name that belongs to a process
// that died, if it expires; empty for another.
func (in *incarnation) dead(holder *broker.KV) string {
	var info NodeInfo
	if holder == nil || json.Unmarshal(holder.Value, &info) != nil || info.leaving() || in.node.survived(info.Incarnation) {
		return ""
	}
	return info.Incarnation
}

// succeed follows the process that had this node's name, whose registration was seen. p is what it held.
func (in *incarnation) succeed(ctx context.Context, holder *broker.KV, p *deaths.Predecessor) {
	if in.dead(holder) != "" {
		ctx, cancel := context.WithTimeout(ctx, in.session.Timing().TTL)
		defer cancel()
		holder = deaths.LastOf(ctx, in.config.Broker, holder, in.infoCreated)
	}
	now := time.Now()
	if gone := in.deaths.Succeed(in.dead(holder), p, now); gone != nil {
		in.nodeGone(in.config.Name, *gone, now)
	}
}

// probationStep ends the node's probation when its time is over, when a task turns out to be
// to blame, or when no other node takes tasks.
func (in *incarnation) probationStep(now time.Time) {
	if in.info.Probation.IsZero() || !in.fleet.Complete(in.nodes.Revision(), now) {
		return
	}
	others := slices.ContainsFunc(in.fleet.Peers(), func(p schedule.Peer) bool { return p.Closed == "" })
	if others && now.Before(in.info.Probation) && !in.deaths.Excused() {
		return
	}
	in.info.Probation = time.Time{}
	in.out.publishInfo()
	in.board.Reconsider()
}
