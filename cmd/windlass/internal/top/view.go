package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// Heights from which on the head has all its lines, or all but the rates.
const (
	tallMin   = 12
	middleMin = 8
)

// Colours are those that the terminal's user has chosen. What they say is said in
// words as well.
var (
	strong   = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	reversed = lipgloss.NewStyle().Reverse(true)
	alarming = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
	fine     = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	asking   = lipgloss.NewStyle().Foreground(lipgloss.Color("3")).Bold(true)
)

var statusStyles = map[windlass.Status]lipgloss.Style{
	windlass.StatusRunning:   lipgloss.NewStyle().Foreground(lipgloss.Color("6")),
	windlass.StatusCompleted: fine,
	windlass.StatusFailed:    alarming,
	windlass.StatusFault:     alarming,
	windlass.StatusKilled:    lipgloss.NewStyle().Foreground(lipgloss.Color("5")),
	windlass.StatusPaused:    lipgloss.NewStyle().Foreground(lipgloss.Color("3")),
	windlass.StatusSleeping:  lipgloss.NewStyle().Foreground(lipgloss.Color("4")),
	windlass.StatusBlocked:   faint,
	windlass.StatusPending:   lipgloss.NewStyle(),
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	return v
}

// frame is the text of the screen: as many lines as it is high, none wider than it.
func (m *model) frame() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	var lines []string
	if m.mode == reading {
		title := "help"
		if m.of != "" {
			title = "task " + view.Printable(m.of)
		}
		lines = append(lines, strong.Render(pad(title, m.width)))
		for _, text := range m.page[m.pageTop:min(len(m.page), m.pageTop+m.readable())] {
			lines = append(lines, cut(text, m.width))
		}
	} else {
		lines = append(m.head(), m.list()...)
	}
	lines = lines[:min(len(lines), max(0, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, m.foot()), "\n")
}

// headLines is how many the head has.
func (m *model) headLines() int {
	switch {
	case m.height >= tallMin:
		return 4
	case m.height >= middleMin:
		return 3
	}
	return 1
}

// body is how many lines of a list there is room for, readable those of a page.
func (m *model) body() int     { return max(0, m.height-m.headLines()-2) }
func (m *model) readable() int { return max(1, m.height-2) }

// head is what is above every list.
func (m *model) head() []string {
	lines := []string{m.title(), m.sums(), m.pulses(), m.tabs()}
	switch m.headLines() {
	case 4:
		return lines
	case 3:
		return []string{lines[0], lines[1], lines[3]}
	}
	if m.header.trouble != nil {
		return lines[:1]
	}
	return lines[3:]
}

// title says which cluster, and whether what is shown is true now.
func (m *model) title() string {
	state, style := "connecting", faint
	switch {
	case m.header.trouble != nil:
		state = "TROUBLE since " + clock(m.header.since) + ": " + view.Printable(m.header.trouble.Error())
		style = alarming
	case m.header.known:
		state, style = "live since "+clock(m.header.since), fine
	}
	who := "windlass top  " + view.Printable(m.header.namespace) + "  " + view.Printable(m.header.broker)
	room := m.width - lipgloss.Width(state) - 2
	if room < len("windlass top") { // the state matters more
		return style.Render(cut(state, m.width))
	}
	return strong.Render(pad(who, room)) + "  " + style.Render(state)
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }

// sums are the tasks by status. Where there is no room for all, those that need
// somebody come first.
func (m *model) sums() string {
	text := fmt.Sprintf("%d tasks", len(m.cluster.tasks))
	room := m.width - lipgloss.Width(text)
	for _, s := range []windlass.Status{windlass.StatusFault, windlass.StatusFailed, windlass.StatusRunning, windlass.StatusPending,
		windlass.StatusPaused, windlass.StatusSleeping, windlass.StatusBlocked, windlass.StatusCompleted, windlass.StatusKilled} {
		n := m.cluster.counts[s]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, s)
		if room -= 2 + len(part); room < 0 {
			break
		}
		text += "  " + statusStyles[s].Render(part)
	}
	return cut(text, m.width)
}

// pulses are the rates of the last minute.
func (m *model) pulses() string {
	part := func(name string, counts []int, width int) string {
		return fmt.Sprintf("%s %s %s", name, rate(perSecond(counts)), sparkline(counts, width))
	}
	width := max(0, min(pulseSeconds/2, (m.width-34)/2))
	return cut(part("claims", m.header.rates.claims, width)+"  "+part("moves", m.header.rates.moves, width), m.width)
}

// tabs are the views, and how the tasks are chosen.
func (m *model) tabs() string {
	var parts []string
	for i, name := range tabNames {
		text := strconv.Itoa(i+1) + " " + name
		if tab(i) == m.tab {
			text = strong.Render("[" + text + "]")
		} else {
			text = " " + text + " "
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "")
	if c := m.cluster; m.tab == tasksTab && c.filter != "" {
		text += fmt.Sprintf("  filter %q: %d of %d", view.Printable(c.filter), len(c.shown), len(c.tasks))
	}
	return cut(text, m.width)
}

// foot is the line that asks, is typed on, or says what there is.
func (m *model) foot() string {
	switch {
	case m.mode == filtering:
		return cut("filter: "+tail(view.Printable(m.input), m.width-9)+"▏", m.width)
	case m.mode == pausing:
		return asking.Render(cut(fmt.Sprintf("sleep %s for (such as 90s or 2h): %s▏", view.Printable(m.target), m.input), m.width))
	case m.mode == confirming:
		return asking.Render(cut(m.question(), m.width))
	case m.mode == reading:
		return faint.Render(cut("esc back  ↑↓ scroll", m.width))
	case m.said.failed:
		return alarming.Render(cut("FAILED "+m.said.text, m.width))
	case m.said.text != "":
		return cut(m.said.text, m.width)
	}
	return faint.Render(cut(hintOf(m.tab), m.width))
}

// tail is the end of a text that is typed.
func tail(s string, width int) string {
	for lipgloss.Width(s) > max(1, width) {
		s = s[1:]
		for len(s) > 0 && s[0]&0xC0 == 0x80 {
			s = s[1:]
		}
	}
	return s
}

// question asks for a yes. The name gives way where there is no room: what is asked
// for, and how to answer, does not.
func (m *model) question() string {
	before, after := m.asked.verb+" ", ""
	if m.asked.asksPause {
		after = " for " + m.pause.String()
	}
	after += "? [y/N]"
	return before + cut(view.Printable(m.target), max(1, m.width-len(before)-len(after))) + after
}

// list is the heading and the lines in the window.
func (m *model) list() []string {
	body, from := m.body(), m.top[m.tab]
	to := min(m.lines(), from+body)
	if m.tab == jobsTab {
		return m.jobLines(from, to)
	}
	columns, cells := m.table()
	shown, widths := fitting(columns, m.width-2)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	lines := []string{faint.Render(cut("  "+line(columns, shown, widths, titles), m.width))}
	if m.lines() == 0 {
		return append(lines, cut("  "+m.nothing(), m.width))
	}
	for i := from; i < to; i++ {
		of, style := cells(i)
		text := line(columns, shown, widths, of)
		if i == m.cursor[m.tab] {
			lines = append(lines, reversed.Render(cut("> "+text, m.width)))
		} else {
			lines = append(lines, style.Render(cut("  "+text, m.width)))
		}
	}
	return lines
}

// nothing says why a list is empty.
func (m *model) nothing() string {
	switch {
	case !m.header.known:
		return "…"
	case m.tab == tasksTab && m.cluster.filter != "":
		return "no task has that in its ID, type, status or node; esc forgets the filter"
	case m.tab == nodesTab:
		return "no node is there"
	case m.tab == electionsTab:
		return "nobody stands in any election"
	}
	return "no " + tabNames[m.tab]
}

// jobLines are those of the tree, which draws itself.
func (m *model) jobLines(from, to int) []string {
	heading := "the tree of jobs"
	if m.forest != nil && m.forest.Len() > 0 {
		p := m.forest.Progress(m.header.now)
		heading = fmt.Sprintf("%d jobs, %.1f%% done", p.Total, p.Percent)
		if p.BlockedForGood > 0 {
			heading += fmt.Sprintf(", %d blocked for good", p.BlockedForGood)
		}
	}
	lines := []string{faint.Render(cut("  "+heading, m.width))}
	switch {
	case m.forest == nil:
		return append(lines, cut("  …", m.width))
	case len(m.jobs) == 0:
		return append(lines, cut("  no jobs", m.width))
	}
	for i := from; i < to; i++ {
		if i == m.cursor[jobsTab] {
			lines = append(lines, reversed.Render(cut("> "+m.jobs[i], m.width)))
		} else {
			lines = append(lines, cut("  "+m.jobs[i], m.width))
		}
	}
	return lines
}
