package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/shorten"
)

// NodeState says in a word or two what a node does with tasks.
func NodeState(n windlass.NodeStatus, now time.Time) string {
	if !n.AwayUntil.IsZero() {
		return away(n.AwayUntil, now)
	}
	var states []string
	for _, s := range []struct {
		name string
		is   bool
	}{
		{"unreadable", n.Problem != ""}, {"draining", n.Draining}, {"stopping", n.Returning}, {"frozen", n.Frozen}, {"overloaded", n.Overloaded},
	} {
		if s.is {
			states = append(states, s.name)
		}
	}
	if !n.SilentSince.IsZero() {
		states = append(states, NotRenewed(n.SilentSince, now))
	}
	if n.Cordon != nil {
		states = append(states, Cordon(*n.Cordon))
	}
	if !n.Probation.IsZero() {
		states = append(states, "on probation")
	}
	if n.Behind != "" {
		states = append(states, Printable(n.Behind)+" behind")
	}
	if len(states) == 0 {
		return "ready"
	}
	return strings.Join(states, ",")
}

// away says when a node is to be back.
func away(until, now time.Time) string {
	if left := until.Sub(now); left > 0 {
		return "away, to be back within " + left.Round(time.Second).String()
	}
	return "away, to be back " + Ago(&until, now)
}

// NotRenewed says for how long a session has not been renewed.
func NotRenewed(since, now time.Time) string {
	return "not renewed for " + now.Sub(since).Truncate(time.Second).String()
}

// Cordon says that a node is cordoned, and why.
func Cordon(c windlass.Suspension) string {
	if c.Reason == "" {
		return "cordoned"
	}
	return "cordoned (" + Printable(shorten.To(c.Reason, 40)) + ")"
}

// GroupSpread says where the tasks of a group are, on those nodes that have any.
func GroupSpread(g inspect.Spread) string {
	var nodes []string
	for _, name := range slices.Sorted(maps.Keys(g.Nodes)) {
		nodes = append(nodes, fmt.Sprintf("%s %d", Printable(name), g.Nodes[name]))
	}
	return fmt.Sprintf("%s (%s)", Printable(g.Group), strings.Join(nodes, ", "))
}
