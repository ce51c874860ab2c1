package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

// nodesCheck returns what the check of nodes found.
func (w *world) nodesCheck() doctor.Check {
	w.Helper()
	checks, err := w.doctor.Namespace(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range checks {
		if c.Name == doctor.CheckNodes {
			return c
		}
	}
	w.Fatal("there is no check of nodes")
	return doctor.Check{}
}

// On etcd nobody ends the sessions of the last processes of all; a node in memory is gone by then.
func TestDoctor_O07_FindsAndEndsTheSessionsOfTheDead(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.node("alive")
		process := w.connect()
		s, err := process.Grant(w.Context(), w.space.Sessions(), 5*time.Second)
		if err != nil {
			w.Fatal(err)
		}
		w.putOn(s.ID, w.space.NodeInfo("dead"), `{"name":"dead","session_ttl":"5s"}`)
		w.putOn(s.ID, w.space.Candidate("e", "dead"), "dead")
		if err := process.Close(); err != nil {
			w.Fatal(err)
		}
		if c := w.nodesCheck(); strings.Contains(c.Found+strings.Join(c.Details, " "), "not renewed") {
			w.Errorf("before its TTL is over: %+v", c)
		}
		time.Sleep(time.Minute)
		if w.has(w.space.NodeInfo("dead")) {
			c := w.nodesCheck()
			if found := c.Found + strings.Join(c.Details, " "); c.Status != doctor.Problem || !strings.Contains(found, "node dead, not renewed for 1m") {
				w.Errorf("found %+v", c)
			}
			if done, left := w.fix(); len(done) != 1 || done[0] != "end the session of node dead" || len(left) > 0 {
				w.Errorf("done %q, left %q", done, left)
			}
		}
		if w.has(w.space.NodeInfo("dead")) || w.has(w.space.Candidate("e", "dead")) || !w.has(w.space.NodeInfo("alive")) {
			w.Error("the wrong node is there")
		}
	})
}

// Elections need no node, and so may have died without one that could tell.
func TestDoctor_O07_FindsADeadLeaderWhereNoNodeIs(t *testing.T) {
	inWorlds(t, func(w *world) {
		process := w.connect()
		s, err := process.Grant(w.Context(), w.space.Sessions(), 5*time.Second)
		if err != nil {
			w.Fatal(err)
		}
		w.putOn(s.ID, w.space.Candidate("e", "dead"), "dead")
		if err := process.Close(); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !w.has(w.space.Candidate("e", "dead")) {
			return // the store has ended its session
		}
		if c := w.nodesCheck(); c.Status != doctor.Problem || !strings.Contains(strings.Join(c.Details, " "), "candidate dead of election e, not renewed for 1m") {
			w.Errorf("found %+v", c)
		}
	})
}

// A clock that is an hour behind ends nobody's session.
func TestDoctor_AccusesNobodyForAClock(t *testing.T) {
	inWorlds(t, func(w *world) {
		id := w.node("behind")
		w.putOn(id, sessionkey.Of(w.space.Sessions(), id, sessionkey.Lease), "5s")
		over := make(chan struct{})
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			for {
				w.putOn(id, sessionkey.Of(w.space.Sessions(), id, sessionkey.Pulse), string(sessionkey.Stamp(time.Now().Add(-time.Hour))))
				select {
				case <-over:
					return
				case <-time.After(time.Second):
				}
			}
		}()
		time.Sleep(3 * time.Second)
		if c := w.nodesCheck(); c.Status == doctor.Problem {
			w.Errorf("found %+v", c)
		}
		if done, left := w.fix(); len(done)+len(left) > 0 {
			w.Errorf("done %q, left %q", done, left)
		}
		close(over)
		<-renewed
	})
}

// Where nothing can end it, it is said to be left.
func TestFix_LeavesASessionThatDoesNotEnd(t *testing.T) {
	inMemory(t, func(w *world) {
		id := w.node("stays")
		w.putOn(id, sessionkey.Of(w.space.Sessions(), id, sessionkey.Lease), "5s")
		w.putOn(id, sessionkey.Of(w.space.Sessions(), id, sessionkey.Pulse), string(sessionkey.Stamp(time.Now().Add(-time.Hour))))
		if done, left := w.fix(); len(done) > 0 || len(left) != 1 || !strings.HasPrefix(left[0], "end the session of node stays: it has not ended within ") {
			w.Errorf("done %q, left %q", done, left)
		}
	})
}
