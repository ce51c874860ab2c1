package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/operate"
)

// heal ends all faults.
func (w *world) heal() {
	w.harvest(w.troubled)
	w.troubled.Use(nil)
	w.troubled.Thaw()
	w.troubled.Heal()
	for _, p := range w.processes {
		w.harvest(p.Faults())
		p.mend()
	}
	w.mendCorrupt()
	for _, p := range w.processes {
		if p.Killed() {
			w.removeUp(p)
		}
	}
}

// settleMax limits the time until the cluster has settled: sessions of killed nodes
// expire, nodes that lost theirs rejoin, requests that are late by 30 s arrive, and
// audits find missed changes.
func (w *world) settleMax() time.Duration {
	return 5*w.profile.ttl + 90*time.Second + w.profile.returnWithin
}

// settle waits until the cluster has settled (I5, V1, V2, V3, V6).
func (w *world) settle() {
	for len(w.up) < 2 {
		w.start(w.newName())
	}
	w.setCalm(true)
	w.thawNodes()
	w.runAll()
	began := time.Now()
	since := began // the last node joined
	tried := false
	for wrong := w.amiss(); wrong != ""; wrong = w.amiss() {
		if time.Since(since) > w.settleMax() || time.Since(began) > replacedMax*w.settleMax() {
			if strings.HasPrefix(wrong, "V2") && !w.options.Even {
				w.t.Logf("not even within %v: %s", w.settleMax(), wrong)
				break
			}
			if !tried && w.anySuspects() {
				tried, began, since = true, time.Now(), time.Now() // they wait for each other
				continue
			}
			w.fail("not settled within %v: %s%s", w.settleMax(), wrong, w.whyUnfinished())
			return
		}
		w.sleep(250 * time.Millisecond)
		if w.replaceDead() {
			since = time.Now()
		}
	}
	w.report.Settled = max(w.report.Settled, time.Since(began))
	if !w.unknownKept() {
		w.fail("M06: keys that nobody knows are gone")
	}
	w.judgeLeft()
}

// replacedMax limits how often the wait starts again because the fence has ended a node.
const replacedMax = 4

// replaceDead starts nodes for those that the fence has ended meanwhile, and reports
// whether it did. It also finds nodes that ended by themselves, which none may (M14).
func (w *world) replaceDead() (started bool) {
	for _, p := range slices.Clone(w.up) {
		switch err := p.Over(); {
		case p.Killed():
		case err == nil:
			continue
		case errors.Is(err, broker.ErrPermission) && !p.joined.Load(): // as it should
			_ = p.Stop()
			w.count("node that may not join")
		default:
			w.fail("M14: node %s gave up: %v", p.Name(), err)
		}
		w.removeUp(p)
	}
	for len(w.up) < 2 {
		w.start(w.newName())
		started = true
	}
	return started
}

// thawNodes ends the effects of commands on nodes.
func (w *world) thawNodes() {
	for range 3 {
		if w.profile.pauses {
			w.resumeTypes()
		}
		for _, p := range w.up {
			_ = operate.New(w.client).Send(w.t.Context(), p.Name(), operate.Command{Command: operate.Unfreeze}) // it may have to join first
			_ = operate.New(w.client).Uncordon(w.t.Context(), p.Name())                                         // it may have no cordon
		}
		w.sleep(w.profile.ttl)
	}
}

// amiss reports something that has not settled yet, empty for nothing. What was amiss a moment ago
// is looked at first: it mostly still is, and to look at everything takes long.
func (w *world) amiss() string {
	synctest.Wait()
	checks := []func() string{w.unsettled, w.lost, w.circular, w.unfinished, w.ignoredCommand, w.outdated, w.misled, w.pausedStill}
	if wrong := checks[w.amissLast](); wrong != "" {
		return wrong
	}
	for i, check := range checks {
		if i == w.amissLast {
			continue
		}
		if wrong := check(); wrong != "" {
			w.amissLast = i
			return wrong
		}
	}
	return w.misplaced()
}

func (w *world) unsettled() string {
	if wrong, err := w.cluster.Unsettled(w.t.Context()); err != nil || len(wrong) > 0 {
		return fmt.Sprintf("%v %s", err, strings.Join(wrong, "; "))
	}
	return ""
}

// misplaced reports a node that is not there (V6) or may not claim, or tasks that are unevenly
// spread (V2), empty for nothing.
func (w *world) misplaced() string {
	nodes, err := w.client.Nodes(w.t.Context())
	if err != nil {
		return err.Error()
	}
	registered := map[string]windlass.NodeStatus{}
	sum, most := 0, 0
	for _, n := range nodes {
		if !n.AwayUntil.IsZero() {
			continue
		}
		registered[n.Name] = n
		sum, most = sum+n.Tasks, max(most, n.Tasks)
		if n.Frozen || n.Draining || n.Cordon != nil {
			_ = operate.New(w.client).Uncordon(w.t.Context(), n.Name)
			_ = operate.New(w.client).Send(w.t.Context(), n.Name, operate.Command{Command: operate.Unfreeze}) // it may just be leaving
			return fmt.Sprintf("node %s is frozen, cordoned or draining", n.Name)
		}
	}
	for _, p := range w.up {
		if _, ok := registered[p.Name()]; !ok {
			return fmt.Sprintf("V6: node %s has not rejoined", p.Name())
		}
	}
	switch {
	case len(registered) != len(w.up):
		return fmt.Sprintf("%d nodes are registered and %d live", len(registered), len(w.up))
	case float64(most) > float64(sum)/float64(len(registered))*drifted+1:
		return fmt.Sprintf("V2: a node holds %d of %d tasks, and there are %d nodes", most, sum, len(registered))
	}
	return ""
}

// drifted is how far above the average, besides one task, the default balancer lets a
// node be when tasks come and go by themselves.
const drifted = 1.1

// lost reports a task that was acknowledged and is lost (I5).
func (w *world) lost() string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	for id := range w.expected {
		if exists, _ := w.log.Task(id); !exists && w.log.Ended(id) == "" {
			return fmt.Sprintf("I5: %q was acknowledged and is lost", id)
		}
	}
	return ""
}
