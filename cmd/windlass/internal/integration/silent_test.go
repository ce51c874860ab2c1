package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
)

// All processes are dead, and on etcd nobody is left to end their sessions.
func TestSilent_O07_WhatADeadFleetHoldsIsNotSaidToBeWell(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var line broker.Broker
		a := c.join("a", running(untilStopped), func(config *windlass.Config) { line = config.Broker })
		e, _ := c.electing(a, "reports", untilOver)
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitFor(10*time.Second, "t", windlass.StatusRunning)
		c.WaitUntil(5*time.Second, "a leads", e.IsLeader)
		c.Advance(time.Minute)
		wantSilent := func(want string) {
			t.Helper()
			elections, err := election.List(t.Context(), c.store, "test")
			c.must(err)
			d, err := c.client.Task(t.Context(), "t")
			c.must(err)
			of := ""
			if silent := elections[0].Candidates[0].Silent; silent > 0 {
				of = silent.String()
			}
			if node := c.nodes()[0].Silent; node != want || d.Silent != want || of != want {
				t.Errorf("node: %q, task: %q, candidate: %q; want %q", node, d.Silent, of, want)
			}
		}
		wantSilent("")
		a.Kill()
		c.must(line.Close())
		c.Advance(15 * time.Second)
		wantSilent("")
		c.Advance(45 * time.Second)
		if silent := c.nodes()[0].Silent; silent != "1m0s" && silent != "1m1s" && silent != "1m2s" && silent != "1m3s" {
			t.Errorf("after a minute: %q", silent)
		}
		wantSilent(c.nodes()[0].Silent)
		if why := c.explain("t").Why; !strings.HasPrefix(why, "a holds it, and has not renewed its session for 1m") {
			t.Error(why)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if d, err := c.client.Wait(ctx, "t", windlass.StatusRunning); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is %s: %v", d.Status, err)
		}
		c.join("b", running(untilStopped))
		d, err := c.client.Wait(t.Context(), "t", windlass.StatusRunning)
		c.must(err)
		if d.Node != "b" || d.Silent != "" {
			t.Errorf("it runs on %q, silent for %q", d.Node, d.Silent)
		}
	})
}
