package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/session"
)

// On etcd nobody ends the session of the last process of all before another one comes.
func TestElections_L03_ALeaderThatDiedIsNotTakenForOneThatLeads(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		// A process that is killed looks after no session of another one any more.
		var lines []broker.Broker
		own := func(config *windlass.Config) { lines = append(lines, config.Broker) }
		a := c.join("a", own)
		first, _ := c.electing(a, "reports", untilOver)
		c.WaitUntil(5*time.Second, "a leads", first.IsLeader)
		b := c.join("b", own)
		second, _ := c.electing(b, "reports", untilOver)
		c.WaitUntil(5*time.Second, "b is second", func() bool { return len(c.candidates("reports")) == 2 })
		began := time.Now()
		now, itself, err := second.LeaderAlive(t.Context())
		c.must(err)
		if now.Leader != "a" || itself || time.Since(began) > session.Derive(session.TTLDefault).Renew+time.Second {
			t.Errorf("%+v, its own: %t, after %v", now, itself, time.Since(began))
		}
		if now, itself, err = first.LeaderAlive(t.Context()); now.Leader != "a" || !itself || err != nil {
			t.Errorf("the leader: %+v, its own: %t, %v", now, itself, err)
		}
		a.Kill()
		b.Kill()
		for _, line := range lines {
			c.must(line.Close())
		}
		c.Advance(time.Minute)

		third, _ := c.electing(c.join("c"), "reports", untilOver)
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			now, itself, err := third.LeaderAlive(ctx)
			cancel()
			c.must(err)
			if itself {
				break
			}
			if now.Leader != "" {
				t.Fatalf("%s leads, which is dead", now.Leader)
			}
			c.Advance(100 * time.Millisecond)
		}
		c.WaitUntil(5*time.Second, "c leads", third.IsLeader)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if now, _, err := third.LeaderAlive(ctx); err == nil || now != (election.Leadership{}) {
			t.Errorf("after its time: %+v, %v", now, err)
		}
	})
}

func TestElections_L03_WhoLeadsIsNotKnownWithoutABroker(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		first, _ := c.electing(a, "reports", untilOver)
		c.WaitUntil(5*time.Second, "a leads", first.IsLeader)
		b := c.join("b")
		second, _ := c.electing(b, "reports", untilOver)
		c.WaitUntil(5*time.Second, "b is second", func() bool { return len(c.candidates("reports")) == 2 })
		b.Use("refuse on list")
		if _, _, err := second.LeaderAlive(t.Context()); !broker.Temporary(err) {
			t.Errorf("without listings: %v", err)
		}
	})
}
