package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/zksuite"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// trueHistory fails the test unless the history of a task says of each of its runs when it ended: that
// of a process that lived to the second, that of one that was killed with its session at the latest.
// It returns how many ends nobody has seen.
func (c *cluster) trueHistory(id string) (unseen int) {
	c.t.Helper()
	_, h := c.historyOf(id)
	runs := c.Runs(id)
	if len(runs) == 0 {
		c.t.Errorf("%s has not run", id)
	}
	slack := time.Second
	if zksuite.On() { // all of it takes real time, beside other tests
		slack = 3 * time.Second
	}
	tokens := map[int64]bool{}
	for i, run := range runs {
		tokens[run.Token] = true
		if run.Ended.IsZero() || i+1 < len(runs) && runs[i+1].Token == run.Token {
			continue // it goes on, or its claim does
		}
		end, found := endOf(h, run.Token)
		late := end.At.Sub(run.Ended)
		switch {
		case !found:
			c.t.Errorf("%s: the history has no end of the run on %s, which ended at %v:%s", id, run.Node, run.Ended.Format("04:05.000"), inDetail(h))
		case end.Unseen:
			unseen++
		case run.Killed && (late < 0 || late > session.TTLDefault+slack), !run.Killed && late.Abs() > slack:
			c.t.Errorf("%s: the run on %s ended at %v:%s", id, run.Node, run.Ended.Format("04:05.000"), inDetail(h))
		}
	}
	if h.Claims < len(tokens) {
		c.t.Errorf("%s: %d claims of %d:%s", id, h.Claims, len(tokens), inDetail(h))
	}
	return unseen
}

// endOf returns the entry with which a claim ends.
func endOf(h statemachine.History, token int64) (statemachine.HistoryEntry, bool) {
	for _, e := range h.Entries {
		if ends := e.Event == statemachine.EventReleased || e.Event == statemachine.EventLost || statemachine.State(e.Event).Terminal(); ends && e.Token == token {
			return e, true
		}
	}
	return statemachine.HistoryEntry{}, false
}

// What has not run is a gap in the history, however long it is before somebody claims the task again.
func TestHistory_M55_SaysWhenAClaimEnded(t *testing.T) {
	for _, tt := range []struct {
		what  string
		after time.Duration // the claims
		fault func(c *cluster, nodes []*windlasstest.Node)
		// unseen is how many ends nobody can have seen, of both tasks.
		unseen int
	}{
		{"a node is killed", time.Minute, func(c *cluster, nodes []*windlasstest.Node) { nodes[0].Kill() }, 0},
		{"a node is killed at once", time.Millisecond, func(c *cluster, nodes []*windlasstest.Node) { nodes[0].Kill() }, 0},
		{"a node is killed, and nobody may claim for ten minutes", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			c.cordon("b", "")
			nodes[0].Kill()
			c.Advance(10 * time.Minute)
			c.uncordon("b")
		}, 0},
		{"the one that has seen it has not claimed", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			c.cordon("b", "")
			nodes[0].Kill()
			c.Advance(10 * time.Minute)
			nodes[0].Restart()
			c.Advance(time.Minute)
			c.uncordon("b")
		}, 0},
		{"a node is cut off", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			nodes[0].Partition()
			c.Advance(time.Minute)
			nodes[0].Heal()
		}, 0},
		{"all are cut off", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			for _, n := range nodes {
				n.Partition()
			}
			c.Advance(5 * time.Minute)
			for _, n := range nodes {
				n.Heal()
			}
		}, 0},
		{"a node is frozen", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			nodes[0].Freeze()
			c.Advance(time.Minute)
			nodes[0].Thaw()
		}, 0},
		{"all are killed together", time.Minute, func(c *cluster, nodes []*windlasstest.Node) {
			for _, n := range nodes {
				n.Kill()
			}
			c.Advance(8 * time.Hour)
			nodes[0].Restart()
		}, 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				nodes := []*windlasstest.Node{c.join("a"), c.join("b")}
				c.Advance(time.Second)
				c.Submit(windlass.Submission{ID: "t1"}, windlass.Submission{ID: "t2"})
				c.WaitUntil(time.Minute, "they run", c.allRunning(2))
				c.Advance(tt.after)
				tt.fault(c, nodes)
				c.Advance(time.Minute)
				c.WaitUntil(10*time.Minute, "they run", c.allRunning(2))
				c.Advance(15 * time.Second)
				if unseen := c.trueHistory("t1") + c.trueHistory("t2"); unseen != tt.unseen {
					_, h := c.historyOf("t1")
					t.Errorf("%d ends are said to be unseen, want %d:%s", unseen, tt.unseen, inDetail(h))
				}
			})
		})
	}
}

// Nobody is there when the only node dies: the process that follows it knows no more than that it was
// dead by then, however soon that has ended the session.
func TestHistory_M55_OfAFleetOfOneNobodySawTheEnd(t *testing.T) {
	for _, after := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				n := c.join("a")
				c.Submit(windlass.Submission{ID: "t1"}, windlass.Submission{ID: "t2"})
				c.WaitUntil(time.Minute, "they run", c.allRunning(2))
				c.Advance(10 * time.Minute)
				n.Kill()
				c.Advance(after)
				n.Restart()
				c.Advance(time.Minute)
				c.WaitUntil(time.Minute, "they run", c.allRunning(2))
				c.Advance(15 * time.Second)
				if unseen := c.trueHistory("t1") + c.trueHistory("t2"); unseen != 2 {
					_, h := c.historyOf("t1")
					t.Errorf("%d ends are said to be unseen:%s", unseen, inDetail(h))
				}
			})
		})
	}
}

// What a handler has ended while the broker was away ended then, and not when that was stored.
func TestHistory_M55_AnEndThatIsStoredLaterHasItsTime(t *testing.T) {
	for name, result := range map[string]error{"completed": nil, "failed": windlass.Permanent(errors.New("no")), "sleeping": errors.New("no"), "released": windlass.ErrRelease} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				n := c.join("a", running(func(ctx context.Context, claim *windlass.Claim) error {
					if len(c.Runs("t")) > 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					select {
					case <-time.After(10 * time.Second):
						return result
					case <-ctx.Done():
						return ctx.Err()
					}
				}))
				c.Submit(windlass.Submission{ID: "t"})
				c.WaitFor(time.Minute, "t", windlass.StatusRunning)
				c.Advance(8500 * time.Millisecond)
				n.Partition() // the answer is late by less than the session lasts
				c.Advance(4 * time.Second)
				n.Heal()
				c.Advance(time.Minute)
				ended := c.Runs("t")[0].Ended
				_, h := c.historyOf("t")
				for _, e := range h.Entries {
					if string(e.Event) == name {
						if late := e.At.Sub(ended); late.Abs() > 100*time.Millisecond {
							t.Errorf("it ended at %v:%s", ended.Format("04:05.000"), inDetail(h))
						}
						return
					}
				}
				t.Errorf("it has not %s:%s", name, inDetail(h))
			})
		})
	}
}

// The deaths that a task is set aside for are in its history, and that it is.
func TestHistory_O02_OfATaskThatWasSetAsideHasTheDeaths(t *testing.T) {
	for _, fuse := range []time.Duration{time.Millisecond, 20 * time.Second} {
		t.Run(fmt.Sprint(fuse), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				s := supervise(c, fuse, "a", "b", "c")
				c.Advance(5 * time.Second)
				c.Submit(windlass.Submission{ID: "poison"})
				s.watch(4 * time.Minute)
				s.blamed(0)
				if unseen := c.trueHistory("poison"); unseen != 0 {
					t.Errorf("%d deaths are said to be unseen", unseen)
				}
				told, h := c.historyOf("poison")
				if last := h.Entries[len(h.Entries)-1]; last.Event != statemachine.Event(statemachine.Failed) || strings.Count(told, "lost@") != len(s.dead) {
					t.Errorf("%d died:%s", len(s.dead), inDetail(h))
				}
			})
		})
	}
}
