package election

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// Host replaces Member.Run for a member that uses the sessions of an owner, which opens,
// keeps and closes them, also for other purposes. There is one session at a time. Its
// methods are safe for concurrent use.
type Host struct{ member *Member }

// NewHosted returns a member for an owner of sessions. The deadlines of those sessions
// apply: TTL, Clock, Renewed and Fence of Config are not used.
func NewHosted(config Config) (*Member, *Host, error) {
	m, err := New(config)
	if err != nil {
		return nil, nil, err
	}
	m.running = true // so that Run refuses to run
	return m, &Host{m}, nil
}

// Retention is Member.Election for the election of the node that forgets ended tasks.
func (h *Host) Retention(events Events) (*Election, error) {
	return h.member.election(keys.RetentionElection, events)
}

// Attach makes the elections use a session for as long as it lasts. The caller has
// checked that it supports the namespace's layout.
func (h *Host) Attach(s *session.Session) {
	m := h.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session != nil {
		m.past = append(m.past, m.session.ID())
		m.past = m.past[max(0, len(m.past)-pastMax):]
	}
	m.session, m.trouble = s, nil
	m.broadcast()
}

// Leading returns the elections in which a function runs that relies on a session, by
// name; nil means any session.
func (h *Host) Leading(s *session.Session) []string {
	var names []string
	for _, e := range h.member.all() {
		if running, _ := e.runningOn(s); running {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

// Settle waits until no function runs that relies on a session, which has ended or
// whose elections were stopped, or until the session's hard deadline passes. A session
// that was not lost may be closed after that if Leading returns nothing.
func (h *Host) Settle(s *session.Session) {
	for _, e := range h.member.all() {
		for {
			running, changed := e.runningOn(s)
			if !running {
				break
			}
			select {
			case <-changed:
			case <-s.HardPassed():
				return
			}
		}
	}
}

// Stop stops all elections for good: the functions are told to return, and each entry
// is deleted on its own, so that a function that is slow to return delays no other
// election. Stop returns when that is done. If ctx ends first, it returns an error that
// names an election that is not done.
func (h *Host) Stop(ctx context.Context) error {
	m := h.member
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	running := map[string]*candidacy{}
	for _, e := range m.all() {
		if cd := e.requestStop(); cd != nil {
			running[e.name] = cd
		}
	}
	for name, cd := range running {
		select {
		case <-cd.left:
		case <-ctx.Done():
			return fmt.Errorf("stop election %q: %w", name, ctx.Err())
		}
	}
	return nil
}

// Close stops all elections for good if Stop did not, and waits for every goroutine of
// the member, but not for functions that have not returned. The last session must have
// ended, or Close lasts until it does. It is called once.
func (h *Host) Close() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.Stop(ended) // without waiting
	close(h.member.closed)
	h.member.work.Wait()
}
