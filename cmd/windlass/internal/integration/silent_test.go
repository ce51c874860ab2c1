package integration_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
		silence := func() (all []time.Duration) {
			t.Helper()
			elections, err := election.List(t.Context(), c.store, "test")
			c.must(err)
			d, err := c.client.Task(t.Context(), "t")
			c.must(err)
			all = append(all, elections[0].Candidates[0].Silent)
			for _, text := range []string{d.Silent, c.nodes()[0].Silent} {
				silent, err := time.ParseDuration(cmp.Or(text, "0s"))
				c.must(err)
				all = append(all, silent)
			}
			return all
		}
		noneSilent := func() {
			t.Helper()
			if got := silence(); slices.Max(got) > 0 {
				t.Errorf("candidate, task and node are silent for %v", got)
			}
		}
		noneSilent()
		a.Kill()
		c.must(line.Close())
		c.Advance(15 * time.Second)
		noneSilent()
		c.Advance(45 * time.Second)
		// Each looks again after 4.5 s.
		if got := silence(); slices.Min(got) < time.Minute || slices.Max(got) > time.Minute+20*time.Second {
			t.Errorf("after a minute candidate, task and node are silent for %v", got)
		}
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
