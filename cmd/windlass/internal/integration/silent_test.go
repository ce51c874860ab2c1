package integration_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/inspect"
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
		shown := c.watchSilence()
		silence := func() (all []time.Duration) {
			t.Helper()
			elections, err := election.List(t.Context(), c.store, "test")
			c.must(err)
			d, err := c.client.Task(t.Context(), "t")
			c.must(err)
			for _, since := range append(shown(), elections[0].Candidates[0].SilentSince, d.SilentSince, c.nodes()[0].SilentSince) {
				silent := time.Duration(0)
				if !since.IsZero() {
					silent = time.Since(since)
				}
				all = append(all, silent)
			}
			return all
		}
		noneSilent := func() {
			t.Helper()
			if got := silence(); slices.Max(got) > 0 {
				t.Errorf("node, candidate and leader that are watched, and candidate, task and node are silent for %v", got)
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
			t.Errorf("after a minute node, candidate and leader that are watched, and candidate, task and node are silent for %v", got)
		}
		if why := c.explain("t").Why; !strings.HasPrefix(why, "a holds it, and has not renewed its session for 1m") {
			t.Error(why)
		}
		c.Submit(windlass.Submission{ID: "late"})
		if e := c.explain("late"); e.Nodes[0].Takes || !strings.HasPrefix(e.Nodes[0].Why, "it has not renewed its session for 1m") || e.Why != "no node can take it; see each" {
			t.Errorf("of what waits: %s: %+v", e.Why, e.Nodes)
		}
		plan, err := inspect.New(c.client).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) { return nodes, nil })
		c.must(err)
		if plan.Waiting != 2 || len(plan.Moves) != 1 || plan.Moves[0] != (inspect.PlannedMove{From: "a", Tasks: 1}) {
			t.Errorf("planned are %+v", plan)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if d, err := c.client.Wait(ctx, "t", windlass.StatusRunning); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is %s: %v", d.Status, err)
		}
		c.join("b", running(untilStopped))
		d, err := c.client.Wait(t.Context(), "t", windlass.StatusRunning)
		c.must(err)
		if d.Node != "b" || !d.SilentSince.IsZero() {
			t.Errorf("it runs on %q, silent since %v", d.Node, d.SilentSince)
		}
	})
}

// watchSilence follows the only node, the only election and who leads it, and returns when they were
// renewed last, if that is long ago.
func (c *cluster) watchSilence() (shown func() []time.Time) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var mu sync.Mutex
	var node, candidate, leader time.Time
	var watching sync.WaitGroup
	watching.Go(func() {
		for change, err := range c.client.WatchNodes(ctx) {
			if mu.Lock(); err == nil {
				node = change.Node.SilentSince
			}
			mu.Unlock()
		}
	})
	watching.Go(func() {
		for change, err := range election.Watch(ctx, c.store, "test") {
			if mu.Lock(); err == nil && !change.Gone {
				candidate = change.Election.Candidates[0].SilentSince
			}
			mu.Unlock()
		}
	})
	watching.Go(func() {
		for now, err := range election.Observe(ctx, c.store, "test", "reports") {
			if mu.Lock(); err == nil && now.Leader != "" {
				leader = now.SilentSince
			}
			mu.Unlock()
		}
	})
	c.t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return []time.Time{node, candidate, leader}
	}
}
