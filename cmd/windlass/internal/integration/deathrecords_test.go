package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// TestPoison_O02_…: the node that is back answers what another has just made of the record.
func TestPoison_O02_TwoWritersOfARecordLoseNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		space, err := keys.New("test")
		c.must(err)
		key := space.NodeDeath("a", "before")
		write := func(d events.Death) {
			t.Helper()
			_, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(key, d.Encode())}})
			c.must(err)
		}
		c.Submit(windlass.Submission{ID: "innocent"}, windlass.Submission{ID: "poison"})
		c.joinFaulty("a", `delay-request 700ms on commit below "/test/nodes/a/deaths"`)
		c.WaitUntil(time.Minute, "they run", c.allRunning(2))
		d := events.Death{At: time.Now(), Claims: 2, Recent: 2, Lost: []events.Lost{
			{Task: "poison", Token: broker.Revision(c.task("poison").Token)}, {Task: "innocent", Token: broker.Revision(c.task("innocent").Token)},
		}}
		write(d)
		c.Advance(300 * time.Millisecond) // the answer is on its way
		d.Claims, d.Lost, d.Recent = 1, d.Lost[:1], 1
		write(d)
		c.WaitUntil(time.Minute, "it is answered", func() bool { return c.deaths()[0].Restarted })
		if got := c.deaths()[0]; got.Claims != 1 || len(got.Lost) != 1 {
			t.Errorf("the innocent task is in the record again: %+v", got)
		}
	})
}

// One was convicted by a death that had another reason. Then the task is found that explains
// the deaths before.
func TestPoison_O02_WhatWasSetAsideWronglyRunsAgain(t *testing.T) {
	for _, ended := range []bool{true, false} {
		t.Run(map[bool]string{true: "it has failed", false: "it has been run again by somebody"}[ended], func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var broughtBack atomic.Int32
				tells := func(config *windlass.Config) {
					config.Events.BroughtBack = func(task, culprit string) {
						if broughtBack.Add(1); task != "innocent" || culprit != "poison" {
							t.Errorf("it is told that %s was brought back, as %s is to blame", task, culprit)
						}
					}
				}
				c.join("a", tells)
				c.join("b", tells)
				c.Submit(windlass.Submission{ID: "innocent"}, windlass.Submission{ID: "poison"})
				c.WaitUntil(time.Minute, "they run", c.allRunning(2))
				space, err := keys.New("test")
				c.must(err)
				died := 0
				die := func(culprit string, lost ...string) {
					died++
					d := events.Death{At: time.Now(), Claims: len(lost), Recent: len(lost), Restarted: true, Culprit: culprit}
					if culprit != "" {
						d.Count, d.Limit = 3, 3
					}
					for _, id := range lost {
						d.Lost = append(d.Lost, events.Lost{Task: id, Token: broker.Revision(c.task(id).Token)})
					}
					_, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(space.NodeDeath("x", fmt.Sprint(died)), d.Encode())}})
					c.must(err)
				}
				die("", "poison", "innocent")
				die("", "poison", "innocent")
				die("innocent", "innocent")
				c.WaitFor(time.Minute, "innocent", windlass.StatusFailed)
				if !ended {
					c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, "innocent")[0])
					c.WaitFor(time.Minute, "innocent", windlass.StatusRunning)
				}
				starts := c.startsOf("innocent")
				die("", "poison")
				die("", "poison")
				die("poison", "poison")
				c.WaitFor(time.Minute, "poison", windlass.StatusFailed)
				c.WaitFor(time.Minute, "innocent", windlass.StatusRunning)
				c.Advance(20 * time.Second)
				if again := c.startsOf("innocent") - starts; again != map[bool]int{true: 1}[ended] {
					t.Errorf("it was started %d times", again)
				}
				recorded, err := operate.New(c.client).Deaths(t.Context())
				c.must(err)
				for _, d := range recorded {
					if d.Culprit == "innocent" {
						t.Errorf("it is still blamed: %+v", d)
					}
				}
				_, h := c.historyOf("innocent")
				noted := slices.ContainsFunc(h.Entries, func(e statemachine.HistoryEntry) bool {
					return strings.HasSuffix(e.Detail, "it was set aside wrongly, as poison explains the deaths")
				})
				if noted != ended || (broughtBack.Load() == 1) != ended {
					t.Errorf("it was told of %d times, and its history says %+v", broughtBack.Load(), h.Entries)
				}
			})
		})
	}
}

func (c *cluster) deaths() []events.Death {
	c.t.Helper()
	deaths, err := operate.New(c.client).Deaths(c.t.Context())
	c.must(err)
	return deaths
}
