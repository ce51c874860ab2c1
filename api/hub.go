package api

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The kinds of events; registerEvents describes them.
const (
	kindTask     = "task"
	kindNode     = "node"
	kindElection = "election"
	kindList     = "list"
	kindTrouble  = "trouble"
)

// event is one message to all viewers.
type event struct {
	id   string
	kind string
	data []byte
}

// hub passes events on to the viewers, and keeps the latest events for those that
// reconnect.
//
// An event's ID is REVISION.SERVER.POSITION: the highest revision of the store that was
// seen by then, which server this is, and the event's position among all that it has
// passed on. A viewer resumes from the position. A revision alone is not enough: tasks,
// nodes and elections are followed separately, so two servers pass the same changes on
// in different orders, and a viewer that moved from one to the other by the revision
// would miss some. Such a viewer is told to list again instead.
type hub struct {
	limits Limits
	server string

	mu      sync.Mutex
	running bool
	// kept has the latest events, the oldest first; the position of the last one is
	// last.
	kept     []event
	last     uint64
	revision int64
	viewers  map[*viewer]bool
}

// viewer is one stream of events.
type viewer struct {
	// events is closed when the viewer lags too far behind, or the server stops.
	events chan event
	kinds  map[string]bool
	caller string
}

func newHub(l Limits) *hub {
	return &hub{limits: l, server: strings.ToLower(rand.Text()[:10]), viewers: map[*viewer]bool{}}
}

// start begins passing events on; false if it was started already.
func (h *hub) start() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	begins := !h.running
	h.running = true
	return begins
}

// stop ends all streams. What happens until the next start is not known, so no stream
// resumes across it.
func (h *hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running, h.kept = false, nil
	h.last++
	for v := range h.viewers {
		h.cut(v)
	}
}

// cut ends a viewer's stream; the viewer can reconnect.
func (h *hub) cut(v *viewer) {
	close(v.events)
	delete(h.viewers, v)
}

func (h *hub) id() string { return fmt.Sprintf("%d.%s.%d", h.revision, h.server, h.last) }

// publish sends an event to the viewers; revision is zero if the event has none. It never
// waits: a viewer that has no room left is cut off.
func (h *hub) publish(kind string, revision int64, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.revision = max(h.revision, revision)
	e := event{id: h.id(), kind: kind, data: data}
	if len(h.kept) >= h.limits.EventsKeptMax {
		// Half of them go at once, so that this is not done for each.
		h.kept = append(make([]event, 0, h.limits.EventsKeptMax), h.kept[(len(h.kept)+1)/2:]...)
	}
	h.kept = append(h.kept, e)
	for v := range h.viewers {
		if !v.wants(kind) {
			continue
		}
		select {
		case v.events <- e:
		default:
			h.cut(v)
		}
	}
}

func (v *viewer) wants(kind string) bool {
	return len(v.kinds) == 0 || v.kinds[kind] || kind == kindList || kind == kindTrouble
}

// enter adds a viewer that has seen everything up to the event with the ID after, and
// returns the events that it has missed since. It returns a list event if the viewer is
// new, or the server no longer knows that event.
func (h *hub) enter(after string, kinds map[string]bool, caller Caller) (*viewer, []event, *Problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		p := problem(503, "no_events", "this server does not follow the broker at present")
		p.retryAfter = retryAfterBroker
		return nil, nil, p
	}
	if p := h.tooMany(caller); p != nil {
		return nil, nil, p
	}
	v := &viewer{events: make(chan event, h.limits.ViewerEventsMax), kinds: kinds, caller: caller.Name}
	h.viewers[v] = true
	missed, known := h.since(after)
	if !known {
		data := `{"reason":"gap"}`
		if after == "" {
			data = `{"reason":"start"}`
		}
		return v, []event{{id: h.id(), kind: kindList, data: []byte(data)}}, nil
	}
	unwanted := func(e event) bool { return !v.wants(e.kind) }
	return v, slices.DeleteFunc(slices.Clone(missed), unwanted), nil
}

// tooMany refuses one more viewer.
func (h *hub) tooMany(caller Caller) *Problem {
	own := 0
	for v := range h.viewers {
		if v.caller == caller.Name {
			own++
		}
	}
	most := shareOf(h.limits.ViewersMax, caller.Role)
	var p *Problem
	switch n := len(h.viewers); {
	case n >= most:
		p = problem(429, "viewers", "there are %d viewers already", n).
			about("viewers", strconv.Itoa(n), fmt.Sprintf("must be at most %d", most))
	case own >= halfOf(most):
		p = problem(429, "viewers", "%q has %d viewers already", caller.Name, own).
			about("viewers", strconv.Itoa(own), fmt.Sprintf("must be at most %d of one caller", halfOf(most)))
	default:
		return nil
	}
	p.retryAfter = retryAfterBroker
	return p
}

// since returns the events after the one with an ID; false if not all of them are
// known.
func (h *hub) since(id string) ([]event, bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 3 || parts[1] != h.server {
		return nil, false
	}
	at, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil || at > h.last || h.last-at > uint64(len(h.kept)) {
		return nil, false
	}
	return h.kept[uint64(len(h.kept))-(h.last-at):], true
}

// count returns the number of viewers.
func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers)
}

// leave removes a viewer.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers[v] {
		h.cut(v)
	}
}
