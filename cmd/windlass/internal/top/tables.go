package top

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// cellsOf returns the cells of a line of a list, and their style.
type cellsOf func(i int) ([]string, lipgloss.Style)

// table is the list of the view.
func (m *model) table() ([]columnSpec, cellsOf) {
	switch m.tab {
	case nodesTab:
		return m.nodeTable()
	case electionsTab:
		return m.electionTable()
	}
	return m.taskTable()
}

func (m *model) taskTable() ([]columnSpec, cellsOf) {
	columns := []columnSpec{
		{title: m.sorted("ID", ByID), least: 10}, {title: m.sorted("STATUS", ByStatus), width: 9, rank: 1}, {title: m.sorted("NODE", ByNode), width: 14, rank: 2},
		{title: "TYPE", width: 10, rank: 5}, {title: m.sorted("AGE", ByAge), width: 5, rank: 4, right: true}, {title: m.sorted("ERR", ByErrors), width: 4, rank: 3, right: true},
	}
	return columns, func(i int) ([]string, lipgloss.Style) {
		r := m.cluster.shown[i]
		return []string{
			view.Printable(r.ID), string(r.Status), view.OrDash(view.Printable(r.Node)), view.OrDash(view.Printable(r.Type)),
			view.Age(r.SubmittedAt, m.header.now), strconv.Itoa(view.ErrorCount(r.TaskInfo)),
		}, statusStyles[r.Status]
	}
}

// sorted is a title, with the direction if the list is sorted by it.
func (m *model) sorted(title string, by Column) string {
	switch {
	case m.cluster.column != by:
		return title
	case m.cluster.reverse:
		return title + "▲"
	}
	return title + "▼"
}

const gaugeCells = 8

func (m *model) nodeTable() ([]columnSpec, cellsOf) {
	columns := []columnSpec{
		{title: "NODE", least: 8}, {title: "STATE", width: 10, rank: 1}, {title: "TASKS", width: 6, rank: 1, right: true},
		{title: "IN USE", width: gaugeCells + 10, rank: 2}, {title: "LOAD", width: 5, rank: 4, right: true}, {title: "SHARE", width: 5, rank: 7, right: true},
		{title: "ZONE", width: 8, rank: 3}, {title: "VERSION", width: 10, rank: 5}, {title: "AGE", width: 5, rank: 6, right: true},
	}
	names := m.cluster.nodeNames()
	highest := 0
	for _, used := range m.cluster.used {
		highest = max(highest, used)
	}
	return columns, func(i int) ([]string, lipgloss.Style) {
		n := m.cluster.nodes[names[i]]
		used, whole := m.cluster.used[n.Name], highest
		text := strconv.Itoa(used)
		if n.Capacity > 0 {
			whole, text = n.Capacity, fmt.Sprintf("%d/%d", used, n.Capacity)
		}
		load := "-"
		if n.Load > 0 || n.Overloaded {
			load = strconv.Itoa(n.Load) + "%"
		}
		state, style := view.NodeState(n, m.header.now), nodeStyle(n)
		return []string{
			view.Printable(n.Name), state, strconv.Itoa(n.Tasks), gauge(used, whole, gaugeCells) + " " + text, load, strconv.Itoa(max(1, n.Weight)),
			view.OrDash(view.Printable(n.Zone)), view.OrDash(view.Printable(n.Version)), view.Age(&n.StartedAt, m.header.now),
		}, style
	}
}

// nodeStyle is how a node's state looks.
func nodeStyle(n windlass.NodeStatus) lipgloss.Style {
	switch {
	case n.Problem != "", n.Overloaded, !n.SilentSince.IsZero():
		return alarming
	case n.Draining, n.Returning, n.Behind != "", n.SlowRenewal != "":
		return asking
	case n.Frozen, n.Cordon != nil:
		return statusStyles[windlass.StatusSleeping]
	}
	return fine
}

func (m *model) electionTable() ([]columnSpec, cellsOf) {
	columns := []columnSpec{
		{title: "ELECTION", least: 10}, {title: "LEADER", width: 20, rank: 1}, {title: "TOKEN", width: 10, rank: 3, right: true}, {title: "IN LINE", width: 22, rank: 2},
	}
	names := m.cluster.electionNames()
	return columns, func(i int) ([]string, lipgloss.Style) {
		e := m.cluster.elections[names[i]]
		leader, style := view.Printable(e.Leader), lipgloss.NewStyle()
		if e.Candidates[0].Resigning {
			leader, style = leader+" (resigning)", asking
		}
		if since := e.Candidates[0].SilentSince; !since.IsZero() {
			leader, style = leader+" ("+view.NotRenewed(since, m.header.now)+")", alarming
		}
		var waiting []string
		for _, c := range e.Candidates[1:] {
			waiting = append(waiting, c.Name)
		}
		line := "-"
		if len(waiting) > 0 {
			line = fmt.Sprintf("%d: %s", len(waiting), strings.Join(waiting, ", "))
		}
		return []string{view.Printable(e.Name), leader, strconv.FormatInt(e.Token, 10), view.Printable(line)}, style
	}
}
