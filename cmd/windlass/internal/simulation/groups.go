package simulation

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
)

// groups is how many groups there are. Their tasks have a type of their own, as others end soon.
const (
	groups      = 4
	groupedType = "grouped"
	// spreadWithin is how long after a join they are spread at most.
	spreadWithin = 5 * time.Minute
)

// groupOf returns the group of a task, empty for none.
func (w *world) groupOf(id string) string {
	if n := hash("group of "+id) % (groups + 1); w.profile.grouped && behaviourOf(id).stays() && n < groups {
		return fmt.Sprint("g", n)
	}
	return ""
}

// spreadGroups lets a node join, and waits until the groups are spread (O08).
func (w *world) spreadGroups() {
	w.start(w.newName())
	w.settle()
	wrong := w.unspread()
	for began := time.Now(); wrong != "" && time.Since(began) < spreadWithin; wrong = w.unspread() {
		w.sleep(time.Second)
	}
	if wrong != "" {
		w.fail("O08: %v after a node has joined %s", spreadWithin, wrong)
	}
	w.count("node that joins, for groups to be spread")
}

// unspread returns what a move, or an exchange of two tasks, would spread more evenly, while it
// leaves the loads as even as they are; empty if nothing would.
func (w *world) unspread() string {
	synctest.Wait()
	nodes, err := w.client.Nodes(w.t.Context())
	if err != nil {
		return err.Error()
	}
	nodes = slices.DeleteFunc(nodes, func(n windlass.NodeStatus) bool { return !n.AwayUntil.IsZero() })
	tasks, err := w.client.Tasks(w.t.Context(), windlass.Filter{})
	if err != nil {
		return err.Error()
	}
	return unevenGroup(nodes, tasks, func(t windlass.TaskInfo) string {
		if t.Type != groupedType {
			return ""
		}
		return w.groupOf(t.ID)
	})
}

// unevenGroup is unspread for tasks that are on nodes.
func unevenGroup(nodes []windlass.NodeStatus, tasks []windlass.TaskInfo, groupOf func(windlass.TaskInfo) string) string {
	held, all := map[string]map[string]int{}, map[string]int{} // the tasks of a group, and of all groups, by node
	for g := range groups {
		held[fmt.Sprint("g", g)] = map[string]int{}
	}
	for _, t := range tasks {
		if group := groupOf(t); group != "" && t.Token != 0 && t.FinishedAt == nil {
			held[group][t.Node]++
			all[t.Node]++
		}
	}
	for _, from := range nodes {
		for _, to := range nodes {
			for group, on := range held {
				if on[from.Name] < on[to.Name]+2 {
					continue
				}
				// Planners do not count tasks that end soon.
				if to.Tasks < from.Tasks && all[to.Name] < all[from.Name] {
					return fmt.Sprintf("group %s has %v, and node %s holds %d, %s %d", group, on, from.Name, from.Tasks, to.Name, to.Tasks)
				}
				for other, at := range held {
					if other != group && at[to.Name] > at[from.Name] {
						return fmt.Sprintf("groups %s and %s have %v and %v", group, other, on, at)
					}
				}
			}
		}
	}
	return ""
}
