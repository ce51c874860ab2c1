package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/operate"
)

// noteSetAside notes that a task was set aside, for Events.Errored.
func (w *world) noteSetAside(id string, err error, _ time.Time) {
	if !strings.HasPrefix(err.Error(), setAside) {
		return
	}
	w.logMu.Lock()
	again := w.setAside[id]
	w.setAside[id] = true
	w.logMu.Unlock()
	if !again {
		w.count(taskSetAside)
	}
}

// setAside is how the error begins of a task that was found to blame for deaths, and taskSetAside
// counts these.
const (
	setAside     = "set aside: "
	taskSetAside = "task set aside"
)

func (w *world) isSetAside(id string) bool {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return w.setAside[id]
}

// judgeDeaths checks that what is recorded of the deaths of processes is true, and that
// no task was set aside with which too few have died (O02). A process that was cut off
// for two minutes counts, and may have been back since.
func (w *world) judgeDeaths() {
	recorded, err := operate.New(w.operator).Deaths(w.t.Context())
	if err != nil {
		w.fail("O02: the deaths cannot be listed: %v", err)
	}
	for _, d := range recorded {
		w.count("death recorded")
		if d.Restarted && !w.hasDied(d) {
			w.fail("O02: %s is recorded as dead at %v and has not died", d.Node, d.At)
		}
	}
	for id := range w.expected {
		detail, err := w.operator.Task(w.t.Context(), id)
		if err != nil || detail.Status != windlass.StatusFailed || !strings.HasPrefix(detail.LastError(), setAside) {
			continue
		}
		w.logMu.Lock()
		died := w.log.Deaths(id)
		w.logMu.Unlock()
		if died < windlass.DeathsDefault {
			w.fail("O02: %q was set aside, and %d processes died that held it", id, died)
		}
	}
}

// hasDied reports whether a process with the name of one that is recorded as dead has
// died. It may have been suspended until its name was another's.
func (w *world) hasDied(d events.Death) bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.Name() == d.Node && !p.diedAt.IsZero()
	})
}
