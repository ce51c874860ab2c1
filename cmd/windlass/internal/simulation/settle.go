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
)

// heal ends everything that is wrong, and starts what is missing.
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

// settleMax bounds how long it takes until everything is as it should be again:
// sessions of the dead expire, nodes that lost theirs come back, what was under
// way for 30 s arrives, and the audits find it.
func (w *world) settleMax() time.Duration { return 5*w.profile.ttl + 90*time.Second }

// settle waits until everything is as it should be (I5, V1, V2, V3, V6).
func (w *world) settle() {
	for len(w.up) < 2 {
		w.start(w.newName())
	}
	w.setCalm(true)
	w.thawNodes()
	w.runAll()
	began := time.Now()
	since := began // the last node came
	for wrong := w.amiss(); wrong != ""; wrong = w.amiss() {
		if time.Since(since) > w.settleMax() || time.Since(began) > replacedMax*w.settleMax() {
			if strings.HasPrefix(wrong, "V2") && !w.options.Even {
				w.t.Logf("not even within %v: %s", w.settleMax(), wrong)
				break
			}
			w.fail("not settled within %v: %s%s", w.settleMax(), wrong, w.whyUnfinished())
			return
		}
		w.sleep(250 * time.Millisecond)
		if w.replaceDead() {
			since = time.Now()
		}
	}
	w.report.settled(time.Since(began))
	if !w.unknownKept() {
		w.fail("M06: keys that nobody knows are gone")
	}
	w.judgeLeft()
}

// replacedMax bounds how often the wait begins anew because the fence has ended a node.
const replacedMax = 4

// replaceDead starts a node if the fence has ended some meanwhile, and tells whether it
// did. It finds those that ended by themselves, which none may (M14).
func (w *world) replaceDead() (started bool) {
	for _, p := range slices.Clone(w.up) {
		switch err := p.Over(); {
		case p.Killed():
		case err == nil:
			continue
		case errors.Is(err, broker.ErrPermission) && !p.joined.Load(): // as it is to
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

// thawNodes ends what commands have made nodes do.
func (w *world) thawNodes() {
	for range 3 {
		for _, p := range w.up {
			_ = w.client.Send(w.t.Context(), p.Name(), windlass.Command{Command: windlass.CommandUnfreeze}) // it may have to join first
			_ = w.client.Uncordon(w.t.Context(), p.Name())                                                  // it may have no cordon
		}
		w.sleep(w.profile.ttl)
	}
}

// amiss says what is not as it should be; nothing if all is.
func (w *world) amiss() string {
	synctest.Wait()
	if wrong, err := w.cluster.Unsettled(w.t.Context()); err != nil || len(wrong) > 0 {
		return fmt.Sprintf("%v %s", err, strings.Join(wrong, "; "))
	}
	if lost := w.lost(); lost != "" {
		return lost
	}
	if circle := w.circular(); circle != "" {
		return circle
	}
	if unfinished := w.unfinished(); unfinished != "" {
		return unfinished
	}
	if ignored := w.ignoredCommand(); ignored != "" {
		return ignored
	}
	if misled := w.misled(); misled != "" {
		return misled
	}
	nodes, err := w.client.Nodes(w.t.Context())
	if err != nil {
		return err.Error()
	}
	registered := map[string]windlass.NodeStatus{}
	sum, most := 0, 0
	for _, n := range nodes {
		registered[n.Name] = n
		sum, most = sum+n.Tasks, max(most, n.Tasks)
		if n.Frozen || n.Draining || n.Cordon != nil {
			_ = w.client.Uncordon(w.t.Context(), n.Name)
			_ = w.client.Send(w.t.Context(), n.Name, windlass.Command{Command: windlass.CommandUnfreeze}) // it may just be leaving
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
	case float64(most) > float64(sum)/float64(len(nodes))*drifted+1:
		return fmt.Sprintf("V2: a node holds %d of %d tasks, and there are %d nodes", most, sum, len(nodes))
	}
	return ""
}

// drifted is how far above the average the default balancer lets a node be, for
// one task more, when tasks come and go by themselves.
const drifted = 1.1

// lost names a task that was acknowledged and is nowhere (I5).
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
