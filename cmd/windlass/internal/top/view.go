package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/charmbracelet/x/ansi"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

// The least heights for a head of four lines, and of three.
const (
	tallMin   = 12
	middleMin = 8
)

// The colours are those of the terminal's theme. Words say the same.
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

// frame is the text of the screen: exactly its height in lines, none of them wider.
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

// headLines is the height of the head.
func (m *model) headLines() int {
	switch {
	case m.height >= tallMin:
		return 4
	case m.height >= middleMin:
		return 3
	}
	return 1
}

// body is the height of a list, readable that of a page.
func (m *model) body() int     { return max(0, m.height-m.headLines()-2) }
func (m *model) readable() int { return max(1, m.height-2) }

// head is the lines above every list.
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

// title names the cluster and says whether the frame is current.
func (m *model) title() string {
	state, style, since := "connecting", faint, m.header.since.Format(time.TimeOnly)
	switch {
	case m.header.trouble != nil:
		state, style = "TROUBLE since "+since+": "+view.Printable(m.header.trouble.Error()), alarming
	case m.header.known:
		state, style = "live since "+since, fine
	}
	who := "windlass top  " + view.Printable(m.header.namespace) + "  " + view.Printable(m.header.broker)
	room := m.width - lipgloss.Width(state) - 2
	if room < len("windlass top") { // the state matters more
		return style.Render(cut(state, m.width))
	}
	return strong.Render(pad(who, room)) + "  " + style.Render(state)
}

// sums are the tasks by status; those that need attention come first, if there is no room
// for all.
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

func (m *model) pulses() string {
	part := func(name string, counts []int, width int) string {
		return fmt.Sprintf("%s %s %s", name, rate(perSecond(counts)), sparkline(counts, width))
	}
	width := max(0, min(pulseSeconds/2, (m.width-34)/2))
	return cut(part("claims", m.header.rates.claims, width)+"  "+part("moves", m.header.rates.moves, width), m.width)
}

// tabs are the views, and the filter of the tasks.
func (m *model) tabs() string {
	text := ""
	for i, name := range tabNames {
		name = strconv.Itoa(i+1) + " " + name
		if tab(i) == m.tab {
			text += strong.Render("[" + name + "]")
		} else {
			text += " " + name + " "
		}
	}
	if c := m.cluster; m.tab == tasksTab && c.filter != "" {
		text += fmt.Sprintf("  filter %q: %d of %d", view.Printable(c.filter), len(c.shown), len(c.tasks))
	}
	return cut(text, m.width)
}

// foot is the input line, a question, the outcome of an action, or a hint.
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

// tail is the end of a text, in at most width cells.
func tail(s string, width int) string {
	return ansi.TruncateLeft(s, lipgloss.Width(s)-max(1, width), "")
}

// question asks for a yes. Without room only the name is cut.
func (m *model) question() string {
	before, after := m.asked.verb+" ", ""
	if m.asked.asksPause {
		after = " for " + m.pause.String()
	}
	after += "? [y/N]"
	return before + cut(view.Printable(m.target), max(1, m.width-len(before)-len(after))) + after
}

// list is the heading of a list and its lines in the window.
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
		lines = append(lines, m.row(i, line(columns, shown, widths, of), style))
	}
	return lines
}

// row is a line of a list; the one under the cursor is marked.
func (m *model) row(i int, text string, style lipgloss.Style) string {
	if i == m.cursor[m.tab] {
		return reversed.Render(cut("> "+text, m.width))
	}
	return style.Render(cut("  "+text, m.width))
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

// jobsHeading says how far the jobs have come, and what is in their way.
func jobsHeading(p tree.Progress) string {
	heading := fmt.Sprintf("%d jobs, %s done", p.Total, view.Percent(p.Done, p.Total))
	for _, status := range []windlass.Status{windlass.StatusFailed, windlass.StatusKilled} {
		if n := p.Counts[status]; n > 0 {
			heading += fmt.Sprintf(", %d %s", n, status)
		}
	}
	if p.BlockedForGood > 0 {
		heading += fmt.Sprintf(", %d blocked for good", p.BlockedForGood)
	}
	return heading
}

// jobLines is the list of the tree, which draws itself.
func (m *model) jobLines(from, to int) []string {
	heading := "the tree of jobs"
	if m.forest != nil && m.forest.Len() > 0 {
		heading = jobsHeading(m.forest.Progress(m.header.now))
	}
	lines := []string{faint.Render(cut("  "+heading, m.width))}
	switch {
	case m.forest == nil:
		return append(lines, cut("  …", m.width))
	case len(m.jobs) == 0:
		return append(lines, cut("  no jobs", m.width))
	}
	for i := from; i < to; i++ {
		lines = append(lines, m.row(i, m.jobs[i], lipgloss.NewStyle()))
	}
	return lines
}
