package windlass_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

func withFair(cfg *windlass.Config) { cfg.Balancer = fair() }

func TestRegression_ANodeThatOnlyPullsIsNoReasonToMoveTasks(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a", withFair)
		c.join("b", withFair)
		c.sleep(time.Second)
		c.submit(30, windlass.Spec{Type: "h"})
		c.sleep(10 * time.Minute)
		before := 0
		for i := range 30 {
			before += c.startsOf(fmt.Sprintf("task-%03d", i))
		}
		c.join("c", pulling("t"))
		c.sleep(10 * time.Minute)
		after := 0
		for i := range 30 {
			after += c.startsOf(fmt.Sprintf("task-%03d", i))
		}
		if after != before {
			t.Errorf("%d starts, and %d after a node came that runs none of them", before, after)
		}
	})
}

func TestRegression_WhatIsDequeuedIsNotMoved(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		p := c.join("p", withFair, func(cfg *windlass.Config) { cfg.Pulls = []string{"t"} })
		c.sleep(time.Second)
		c.submit(20, windlass.Spec{Type: "h"})
		c.sleep(time.Minute)
		var all []*windlass.Dequeued
		for i := range 5 {
			c.job(fmt.Sprintf("%d_t", i))
			d, err := p.Dequeue(ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		c.join("q", withFair)
		c.sleep(time.Minute)
		for _, d := range all {
			if d.Context().Err() != nil {
				t.Errorf("%s was taken from its caller: %v", d.ID(), context.Cause(d.Context()))
			}
			_ = d.Release(ctx)
		}
	})
}

func TestRegression_ARequeueMakesNoCycle(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.sleep(time.Second)
		sub := func(s windlass.Submission) error {
			s.Spec.Type = "t"
			return c.client.Submit(ctx, s)
		}
		if err := sub(windlass.Submission{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		err1 := sub(windlass.Submission{ID: "a", Spec: windlass.Spec{Needs: []string{"b"}}, Requeue: true})
		err2 := sub(windlass.Submission{ID: "b", Spec: windlass.Spec{Needs: []string{"a"}}})
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Minute)
		if err1 == nil && err2 == nil {
			t.Errorf("neither was refused; a is %s and b is %s", c.status("a"), c.status("b"))
		}
	})
}
