package top

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// tab is one of the views.
type tab int

const (
	tasksTab tab = iota
	nodesTab
	electionsTab
	jobsTab
	tabsMax
)

var tabNames = [tabsMax]string{"tasks", "nodes", "elections", "jobs"}

func bind(help string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(keys[0], help))
}

// The keys that work in every view.
var (
	keyQuit    = bind("quit", "q", "ctrl+c")
	keySuspend = bind("to the background", "ctrl+z")
	keyHelp    = bind("this help", "?")
	keyNext    = bind("next view", "tab", "right")
	keyBefore  = bind("previous view", "shift+tab", "left")
	keyUp      = bind("up", "up", "k")
	keyDown    = bind("down", "down", "j")
	keyPageUp  = bind("a page up", "pgup", "ctrl+b")
	keyPageDn  = bind("a page down", "pgdown", "ctrl+f", "space")
	keyTop     = bind("to the first", "home", "g")
	keyBottom  = bind("to the last", "end", "G")
	keyBack    = bind("back; forget the filter", "esc")
)

// The keys of the view of tasks, besides its actions.
var (
	keyFilter  = bind("filter by text", "/")
	keySort    = bind("sort by the next column", "s")
	keyReverse = bind("the other way round", "S")
	keyOpen    = bind("why it is so, and its history", "enter", "e")
)

// action is what a key does with the selected thing, after a confirmation.
type action struct {
	key key.Binding
	// verb begins the question.
	verb string
	// do does it; pause is that of a sleep.
	do func(c *control, name string, pause time.Duration) tea.Cmd
	// asksPause makes it ask for the pause first.
	asksPause bool
}

func orderAction(message statemachine.Message, help string, keys ...string) action {
	return action{key: bind(help, keys...), verb: string(message), do: func(c *control, id string, _ time.Duration) tea.Cmd {
		return c.order(id, statemachine.Command{Message: message})
	}}
}

func nodeAction(command, help string, keys ...string) action {
	return action{key: bind(help, keys...), verb: command, do: func(c *control, node string, _ time.Duration) tea.Cmd {
		return c.command(node, command)
	}}
}

func cordonAction(verb, help string, keys ...string) action {
	return action{key: bind(help, keys...), verb: verb, do: func(c *control, node string, _ time.Duration) tea.Cmd {
		return c.cordon(node, verb)
	}}
}

// actions are those of each view.
var actions = [tabsMax][]action{
	tasksTab: {
		orderAction(statemachine.Pause, "pause", "p"),
		orderAction(statemachine.Run, "run", "r"),
		{key: bind("sleep for a time", "z"), verb: "sleep", asksPause: true, do: func(c *control, id string, pause time.Duration) tea.Cmd {
			return c.order(id, statemachine.SleepUntil(time.Now().Add(pause)))
		}},
		orderAction(statemachine.Release, "release", "l"),
		orderAction(statemachine.Kill, "kill, for good", "x"),
		{key: bind("retry what has ended", "R"), verb: string(commands.Retry), do: func(c *control, id string, _ time.Duration) tea.Cmd {
			return c.retry(id)
		}},
	},
	nodesTab: {
		cordonAction("cordon", "cordon: gets nothing more", "c"),
		cordonAction("uncordon", "uncordon, also after drain", "C"),
		nodeAction(operate.Freeze, "freeze: claim nothing", "f"),
		nodeAction(operate.Unfreeze, "unfreeze", "u"),
		nodeAction(operate.Drain, "drain: give everything back", "d"),
		nodeAction(operate.Balance, "balance now", "b"),
	},
	electionsTab: {
		{key: bind("resign: the leader steps down", "R"), verb: "resign the leader of", do: func(c *control, name string, _ time.Duration) tea.Cmd {
			return c.resign(name)
		}},
	},
}

// helpOf are the lines of help for a view, its own keys first.
func helpOf(t tab) []string {
	var lines []string
	add := func(title string, bindings ...key.Binding) {
		lines = append(lines, title)
		for _, b := range bindings {
			lines = append(lines, "  "+pad(b.Help().Key, 10)+" "+b.Help().Desc)
		}
	}
	var own []key.Binding
	for _, a := range actions[t] {
		own = append(own, a.key)
	}
	if t == tasksTab {
		own = append([]key.Binding{keyFilter, keySort, keyReverse, keyOpen}, own...)
	}
	if len(own) > 0 {
		add(tabNames[t]+" (an action asks before it does anything)", own...)
		lines = append(lines, "")
	}
	add("everywhere", keyHelp, bind("tasks, nodes, elections, jobs", "1 2 3 4"), keyNext, keyBefore, keyUp, keyDown, keyPageUp, keyPageDn,
		keyTop, keyBottom, keyBack, keySuspend, keyQuit)
	return lines
}

// hintOf is the line of keys at the foot of a view.
func hintOf(t tab) string {
	text := "? help  q quit"
	if t == tasksTab {
		text += "  / filter  s sort  enter why"
	}
	for _, a := range actions[t] {
		word, _, _ := strings.Cut(a.key.Help().Desc, " ")
		text += "  " + a.key.Help().Key + " " + strings.TrimRight(word, ",:")
	}
	return text
}
