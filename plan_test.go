package windlass_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/placement"
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

func TestExplain_M17_NamesTheNodeThatAShortLivedTaskGoesToByItsName(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var classes placement.Classes
		class := classes.Of(placement.Class{Type: "job"})
		view := placement.View{Held: &placement.Tally{}, Open: map[*placement.Class]int{class: 20}, Brief: map[string]bool{"job": true}}
		for _, node := range []string{"a", "b"} { // registered, and no process
			view.Nodes = append(view.Nodes, placement.Node{Name: node, Types: []string{"job"}})
			value := fmt.Appendf(nil, `{"name":%q,"types":["job"],"short_lived":["job","no\u0000type"]}`, node)
			if _, err := broker.CommitOne(t.Context(), f.line, broker.Txn{Then: []broker.Op{broker.Put("/test/nodes/"+node+"/info", value)}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range f.submit("job", 20, windlass.Spec{Type: "job"}) {
			e, err := f.Client().Explain(t.Context(), id)
			if want := "node " + placement.New(view).Take(id, class); err != nil || !strings.HasPrefix(e.Why, want) {
				t.Errorf("of %s it says %q, %v; want %s", id, e.Why, err, want)
			}
		}
	})
}

func TestPlan_M17_MovesTasksOfATypeThatANodeNamesAsShortLived(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(1)
		f.submit("lasts", 20, windlass.Spec{})
		f.allRun(time.Minute, 20)
		report, err := f.Client().Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
			return append(nodes, windlass.NodeInfo{Name: "joins", Types: nodes[0].Types, ShortLived: []string{""}}), nil
		})
		if err != nil || report.Moved != 10 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}
