package windlass_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

func TestPlan_M17_WhatOneNodeSaysOfItselfDoesNotKeepOthersFromPlanning(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("good")
		c.submit(4, windlass.Spec{})
		c.eventually(5*time.Second, "they run", c.allRunning(4))
		c.put("/test/nodes/absurd/info", `{"capacity":99999999999999999,"weight":-5}`)
		join := func(n windlass.NodeInfo) windlass.NodeEdit {
			return func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) { return append(nodes, n), nil }
		}
		report, err := c.client.Plan(t.Context(), join(windlass.NodeInfo{Name: "third"}))
		if err != nil || len(report.Nodes) != 3 || report.Waiting != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		var input *windlass.BadInputError
		if _, err := c.client.Plan(t.Context(), join(windlass.NodeInfo{Name: "third", Capacity: math.MaxInt})); !errors.As(err, &input) || input.Field != "capacity" {
			t.Errorf("a capacity that no node may have: %v", err)
		}
	})
}

func TestPlan_M17_PlacesShortLivedTasksByTheirNamesAsNodesDo(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.submit("job", 201, windlass.Spec{Type: "job"})
		split := func(shortLived ...string) (of map[string]int) {
			report, err := f.Client().Plan(t.Context(), func([]windlass.NodeInfo) ([]windlass.NodeInfo, error) {
				a := windlass.NodeInfo{Name: "a", Types: []string{"job"}, ShortLived: shortLived}
				return []windlass.NodeInfo{a, {Name: "b", Types: []string{"job"}}}, nil
			})
			if err != nil || report.Waiting > 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			of = map[string]int{}
			for _, n := range report.Nodes {
				of[n.Name] = n.After
			}
			return of
		}
		if of := split(); max(of["a"], of["b"]) != 101 {
			t.Errorf("lasting ones: %v", of)
		}
		if of := split("job", "no\x00type"); of["a"]+of["b"] != 201 || max(of["a"], of["b"]) == 101 {
			t.Errorf("by their names: %v", of)
		}
	})
}
