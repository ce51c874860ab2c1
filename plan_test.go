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
