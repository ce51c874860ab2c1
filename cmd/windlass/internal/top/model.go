package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

const inputRunesMax = 200

// mode is what keys mean.
type mode int

const (
	browsing mode = iota
	// filtering: keys edit the filter, which takes effect at once.
	filtering
	// pausing: keys edit the time to sleep.
	pausing
	// confirming: only a yes runs the action.
	confirming
	// reading: help or a detail covers the list.
	reading
)

type tick time.Time

// model is the state of the screen. Only Update and View are called from outside.
type model struct {
	header  header
	cluster *cluster
	control *control
	// take reads the feed, showTree makes it follow the tree.
	take     func() update
	showTree func(bool)
	refresh  time.Duration

	width, height int
	tab           tab
	mode          mode
	// cursor and top are the selected line of each view, and the first in its
	// window; task is the selected task, which the cursor follows.
	cursor, top [tabsMax]int
	task        *row

	// input is the line that is typed. asked is the action that waits for an answer, on
	// target; both stay while the list below changes.
	input  string
	asked  action
	target string
	pause  time.Duration

	// said is the outcome of the last action, or an error of the input.
	said done
	// page is the text that is read, from the line pageTop on; of is its task, if it is
	// a detail, and seen the row of that when it was read.
	page    []string
	pageTop int
	of      string
	seen    *row

	forest *tree.Forest
	jobs   []string
}

// header is the content of the head besides the tasks.
type header struct {
	namespace, broker string
	rates             rates
	trouble           error
	since             time.Time
	now               time.Time
	// known is set after the first update.
	known bool
}

// Init implements tea.Model. It asks for the next tick.
func (m *model) Init() tea.Cmd {
	return tea.Tick(m.refresh, func(at time.Time) tea.Msg { return tick(at) })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.drawJobs()
	case tick:
		return m, tea.Batch(m.Init(), m.apply(m.take()))
	case done:
		m.said = msg
	case detail:
		if m.mode == reading && msg.id == m.of {
			m.page = msg.lines
		}
	case tea.PasteMsg:
		if m.mode == filtering || m.mode == pausing {
			m.typed(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	m.scroll()
	return m, nil
}

func (m *model) apply(u update) tea.Cmd {
	m.cluster.apply(u.changes)
	m.header.rates, m.header.trouble, m.header.since, m.header.now, m.header.known = u.rates, u.trouble, u.since, u.at, true
	if u.forest != nil {
		m.forest = u.forest
		m.drawJobs()
	}
	m.follow()
	m.scroll()
	// The detail of a task is read again when that has changed.
	if m.mode == reading && m.of != "" && m.cluster.tasks[m.of] != m.seen {
		m.seen = m.cluster.tasks[m.of]
		return m.control.look(m.of)
	}
	return nil
}

// follow keeps the cursor on the task that it was on.
func (m *model) follow() {
	if m.task == nil {
		return
	}
	if now := m.cluster.tasks[m.task.ID]; now != nil {
		m.task = now
	}
	if at, ok := m.cluster.find(m.task); ok {
		m.cursor[tasksTab] = at
	} else {
		m.task = nil
	}
}

func (m *model) lines() int {
	switch m.tab {
	case tasksTab:
		return len(m.cluster.shown)
	case nodesTab:
		return len(m.cluster.nodes)
	case electionsTab:
		return len(m.cluster.elections)
	}
	return len(m.jobs)
}

// scroll keeps the cursor in the list and the window around it.
func (m *model) scroll() {
	c, top, body := &m.cursor[m.tab], &m.top[m.tab], max(1, m.body())
	*c = max(0, min(*c, m.lines()-1))
	*top = max(0, min(*top, *c, m.lines()-body))
	*top = max(*top, *c-body+1)
	m.pageTop = max(0, min(m.pageTop, len(m.page)-m.readable()))
}

func (m *model) drawJobs() {
	m.jobs = nil
	if m.forest == nil || m.width == 0 {
		return
	}
	var b strings.Builder
	// A Builder takes everything, and Draw has no other way to fail.
	_ = m.forest.Draw(&b, tree.DrawOptions{Width: max(1, m.width-2), ChildrenMax: jobsShownMax, Now: m.header.now})
	if text := strings.TrimRight(b.String(), "\n"); text != "" {
		m.jobs = strings.Split(text, "\n")
	}
}

const jobsShownMax = 200

func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	defer m.scroll()
	switch m.mode {
	case filtering, pausing:
		return m.edit(k)
	case confirming:
		return m.confirm(k)
	case reading:
		return m.read(k)
	}
	m.said = done{}
	switch {
	case key.Matches(k, keyQuit):
		return tea.Quit
	case key.Matches(k, keySuspend):
		return tea.Suspend
	case key.Matches(k, keyHelp):
		m.mode, m.page, m.pageTop, m.of = reading, helpOf(m.tab), 0, ""
	case key.Matches(k, keyNext):
		m.show((m.tab + 1) % tabsMax)
	case key.Matches(k, keyBefore):
		m.show((m.tab + tabsMax - 1) % tabsMax)
	case len(k.Text) == 1 && k.Text[0] >= '1' && k.Text[0] < '1'+byte(tabsMax):
		m.show(tab(k.Text[0] - '1'))
	case m.move(k, &m.cursor[m.tab], m.body(), m.lines()):
		m.scroll()
		m.hold()
	case m.tab == tasksTab && m.arrange(k):
	case m.tab == tasksTab && key.Matches(k, keyOpen):
		return m.open()
	default:
		m.act(k)
	}
	return nil
}

// hold makes the cursor follow the task that it is on.
func (m *model) hold() {
	if m.tab == tasksTab && m.cursor[tasksTab] < len(m.cluster.shown) {
		m.task = m.cluster.shown[m.cursor[tasksTab]]
	}
}

func (m *model) show(t tab) {
	m.tab = t
	m.showTree(t == jobsTab)
}

// move moves a cursor, and reports whether the key is for that.
func (m *model) move(k tea.KeyPressMsg, cursor *int, page, lines int) bool {
	switch {
	case key.Matches(k, keyUp):
		*cursor--
	case key.Matches(k, keyDown):
		*cursor++
	case key.Matches(k, keyPageUp):
		*cursor -= page
	case key.Matches(k, keyPageDn):
		*cursor += page
	case key.Matches(k, keyTop):
		*cursor = 0
	case key.Matches(k, keyBottom):
		*cursor = lines
	default:
		return false
	}
	return true
}

// arrange sorts and filters, and reports whether the key is for that.
func (m *model) arrange(k tea.KeyPressMsg) bool {
	c := m.cluster
	switch {
	case key.Matches(k, keyFilter):
		m.mode, m.input = filtering, c.filter
	case key.Matches(k, keySort):
		next := slices.Index(Columns, c.column) + 1
		c.sortBy(Columns[next%len(Columns)], false)
	case key.Matches(k, keyReverse):
		c.sortBy(c.column, !c.reverse)
	case key.Matches(k, keyBack):
		c.setFilter("")
	default:
		return false
	}
	m.follow()
	return true
}

func (m *model) open() tea.Cmd {
	m.scroll()
	if len(m.cluster.shown) == 0 {
		return nil
	}
	m.hold()
	m.seen, m.of = m.task, m.task.ID
	m.mode, m.page, m.pageTop = reading, []string{"reading …"}, 0
	return m.control.look(m.of)
}

func (m *model) selected() string {
	m.scroll()
	at := m.cursor[m.tab]
	switch {
	case at >= m.lines():
		return ""
	case m.tab == tasksTab:
		return m.cluster.shown[at].ID
	case m.tab == nodesTab:
		return m.cluster.nodeNames()[at]
	case m.tab == electionsTab:
		return m.cluster.electionNames()[at]
	}
	return ""
}

// act begins an action, which asks first.
func (m *model) act(k tea.KeyPressMsg) {
	for _, a := range actions[m.tab] {
		if !key.Matches(k, a.key) {
			continue
		}
		if m.target = m.selected(); m.target == "" {
			m.said = done{text: "there is nothing to " + a.verb, failed: true}
			return
		}
		m.hold()
		m.asked, m.input, m.pause = a, "", 0
		if m.mode = confirming; a.asksPause {
			m.mode = pausing
		}
		return
	}
}

func (m *model) confirm(k tea.KeyPressMsg) tea.Cmd {
	m.mode = browsing
	if k.Text != "y" && k.Text != "Y" {
		m.said = done{text: "nothing was done"}
		return nil
	}
	m.said = done{text: m.asked.verb + " " + view.Printable(m.target) + " …"}
	return m.asked.do(m.control, m.target, m.pause)
}

func (m *model) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.input = ""
		m.typed("")
		if m.mode == pausing {
			m.said = done{text: "nothing was done"}
		}
		m.mode = browsing
	case "enter":
		if m.mode == filtering {
			m.mode = browsing
			return nil
		}
		pause, err := time.ParseDuration(m.input)
		if err != nil || pause <= 0 {
			m.said = done{text: fmt.Sprintf("%q: must be a duration above zero, such as 90s or 2h", m.input), failed: true}
			m.mode = browsing
			return nil
		}
		m.pause, m.mode = pause, confirming
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.input)
		m.input = m.input[:len(m.input)-size]
		m.typed("")
	case "ctrl+u":
		m.input = ""
		m.typed("")
	default:
		m.typed(k.Text)
	}
	return nil
}

// typed adds to the input. A filter takes effect at once.
func (m *model) typed(text string) {
	if text = view.Printable(text); utf8.RuneCountInString(m.input+text) <= inputRunesMax {
		m.input += text
	}
	if m.mode == filtering {
		m.cluster.setFilter(m.input)
		m.follow()
	}
}

func (m *model) read(k tea.KeyPressMsg) tea.Cmd {
	if !m.move(k, &m.pageTop, m.readable(), len(m.page)) && (key.Matches(k, keyBack) || key.Matches(k, keyQuit) || key.Matches(k, keyHelp) || key.Matches(k, keyOpen)) {
		m.mode, m.page, m.of, m.seen = browsing, nil, "", nil
	}
	return nil
}
