package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/statemachine"
)

// jobLog collects from the store's events what package history does not check of the
// jobs: the submissions, their order, and their outcome.
type jobLog struct {
	byID map[string]*jobHistory
	// owners has the tokens of the current claims.
	owners map[string]broker.Revision
	// requeued counts the runs after which a job ran again.
	requeued int
	wrong    []string
}

// jobHistory is the history of one job.
type jobHistory struct {
	submissions []jobSubmission
	// ended has the records of its ends.
	ended []jobEnd
	// again has the claims whose end submitted it again.
	again map[broker.Revision]bool
}

// jobSubmission is a submission, or a deletion.
type jobSubmission struct {
	at broker.Revision
	n  int
	// after is true if it waits for the end of the current run.
	after, deleted bool
}

// jobEnd is a terminal state that was written at a revision.
type jobEnd struct {
	at    broker.Revision
	state statemachine.State
	token broker.Revision
}

// take applies events, in whole revisions.
func (l *jobLog) take(events []broker.Event) {
	for revision := range history.Revisions(events) {
		l.takeRevision(revision[0].KV.Modified, revision)
	}
}

// group has the events of one revision by key.
type group map[string]broker.Event

func (g group) put(key string) (value []byte, ok bool) {
	e, ok := g[key]
	return e.KV.Value, ok && !e.Deleted
}

func (g group) deletes(key string) bool { return g[key].Deleted }

func (l *jobLog) takeRevision(at broker.Revision, events []broker.Event) {
	g := group{}
	ids := map[string]bool{}
	for _, e := range events {
		g[e.KV.Key] = e
		area, rest, _ := strings.Cut(strings.TrimPrefix(e.KV.Key, prefix), "/")
		if id, _, _ := strings.Cut(rest, "/"); (area == "tasks" || area == "state") && strings.HasPrefix(id, jobPrefix) {
			ids[id] = true
		}
	}
	for id := range ids {
		h := l.byID[id]
		if h == nil {
			h = &jobHistory{again: map[broker.Revision]bool{}}
			l.byID[id] = h
		}
		l.takeJob(h, id, at, g)
	}
}

func (l *jobLog) takeJob(h *jobHistory, id string, at broker.Revision, g group) {
	task := prefix + "tasks/" + id
	if value, ok := g.put(task + "/requeue"); ok {
		var waiting struct{ Props jobData }
		if json.Unmarshal(value, &waiting) == nil {
			h.submissions = append(h.submissions, jobSubmission{at: at, n: waiting.Props.N, after: true})
			l.checkTree(id, at, waiting.Props.N, g)
		}
	}
	state, ends := g.put(prefix + "state/" + id)
	if _, ok := g.put(task); ok && g.deletes(task+"/requeue") && g.deletes(task+"/owner") {
		h.again[l.owners[id]] = true
		l.requeued++
	} else if ok {
		var data jobData
		if value, ok := g.put(task + "/props"); ok && json.Unmarshal(value, &data) == nil {
			h.submissions = append(h.submissions, jobSubmission{at: at, n: data.N})
			l.checkTree(id, at, data.N, g)
		}
	} else if (g.deletes(task) || g.deletes(prefix+"state/"+id)) && !ends { // deleted, or forgotten
		h.submissions = append(h.submissions, jobSubmission{at: at, deleted: true})
	}
	if ends {
		if r, err := statemachine.Parse(state); err == nil && r.State.Terminal() {
			h.ended = append(h.ended, jobEnd{at, r.State, broker.Revision(r.Token)})
		}
	}
	if e, ok := g[task+"/owner"]; ok {
		if l.owners[id] = e.KV.Created; e.Deleted {
			delete(l.owners, id)
		}
	}
}

// checkTree checks that a job is kept in the tree as it is submitted (Z03).
func (l *jobLog) checkTree(id string, at broker.Revision, n int, g group) {
	var record struct{ Data jobData }
	value, _ := g.put(prefix + "tree/" + strings.ReplaceAll(id, jobBar, "/"))
	if err := json.Unmarshal(value, &record); err != nil || record.Data.N != n {
		l.wrong = append(l.wrong, fmt.Sprintf("revision %d: Z03: %q is submitted with data %d, and the tree has %q", at, id, n, value))
	}
}

// waited reports whether a submission waited for the end of a run.
func (h *jobHistory) waited(n int) bool {
	return slices.ContainsFunc(h.submissions, func(s jobSubmission) bool { return s.n == n && s.after })
}

// at returns the revision at which a submission took effect, zero if it did not.
func (h *jobHistory) at(n int) broker.Revision {
	if h != nil {
		for _, s := range h.submissions {
			if s.n == n && !s.deleted {
				return s.at
			}
		}
	}
	return 0
}

// submitted reports whether a submission took effect.
func (h *jobHistory) submitted(n int) bool {
	return slices.ContainsFunc(h.submissions, func(s jobSubmission) bool { return s.n == n && !s.deleted })
}
