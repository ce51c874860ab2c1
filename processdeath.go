package windlass

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/life"
)

// RecordDeath records that a process has died that ran the work of tasks for this node, as a supervisor
// of commands or a plugin does. One of the tasks may be to blame, just as if the node had died with
// it: it is a death of each (Retry.Deaths), and what was claimed lately is started again one after the
// other. Then their handlers are told to stop, if they have not returned, and the tasks given back.
// Handlers must not return before RecordDeath does: others could claim the tasks unaware. process is
// for people, a name as that of a node. Tasks that run here no more are left out. An error of the broker
// means that the record may be missing; it is tried again in the background.
func (n *Node) RecordDeath(ctx context.Context, process string, tasks []string) error {
	if err := keys.CheckProcess(process); err != nil {
		return err
	}
	n.mu.Lock()
	var in *incarnation
	for _, id := range tasks {
		if r := n.held[id]; r != nil {
			in = r.claim.in
		}
	}
	n.mu.Unlock()
	died := make(chan *processDeath, 1)
	if in == nil || !in.arrive(func() { died <- in.processDied(process, tasks) }) {
		return nil // whoever has their claims by now has started them anew
	}
	d := <-died
	if len(d.lost) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(in.session.Context(), cancel)() // the handlers must return in time
	defer cancel()
	err := commitWithin(ctx, n.config.Broker, in.session.Timing().TTL, []broker.Txn{d.record})
	in.arrive(func() {
		if err != nil {
			in.out.deaths.Put(d.incarnation, d.record, time.Now())
		}
		for _, l := range d.lost {
			if r := in.runs[l.Task]; r != nil && r.claim.held.Token == l.Token && r.phase == life.Running {
				in.stopRun(l.Task, life.Crash{Process: process})
			}
		}
	})
	if err != nil {
		return fmt.Errorf("record the death of the %s of node %s: %w", process, n.config.Name, err)
	}
	return nil
}

// processDeath is the death of a process that ran the work of claims, and how it is recorded.
type processDeath struct {
	lost        []events.Lost
	incarnation string
	record      broker.Txn
}

// processDied returns the death of a process that ran the work of tasks. Those are lost whose handlers have
// not returned.
func (in *incarnation) processDied(process string, tasks []string) *processDeath {
	now := time.Now()
	var lost []events.Lost
	for _, id := range tasks {
		if r := in.runs[id]; r != nil && r.handle != nil && in.stage != stageLost {
			lost = append(lost, events.Lost{Task: id, Token: r.claim.held.Token})
		}
	}
	recent := func(l events.Lost) bool { return now.Sub(in.runs[l.Task].claim.held.At) < deaths.RecentFor }
	d := deaths.ProcessDied(in.config.Name, process, lost, recent, now)
	return &processDeath{lost: lost, incarnation: d.Incarnation, record: in.deaths.Record(&d, now)}
}
