// Package repeats keeps a log readable while one thing goes wrong again and again. It passes
// on the first of repeated warnings or errors, and later the latest one with a count.
package repeats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

const (
	// Every is how often a message is passed on that is repeated all the time.
	Every = 5 * time.Minute
	// MessagesMax limits how many messages are remembered. A new one then takes the place
	// of one that has not come again.
	MessagesMax = 1000
)

// Handler passes records on to another handler. Two are the same message if level, text and
// attributes are the same. Times and durations do not count. Of an error of the broker only
// what went wrong counts, not with which key: an outage hits all tasks, and is one thing. A
// value that the broker never takes concerns its own task. Records below warnings are all
// passed on.
//
// It has no timer: the count of what was held back comes with the first record, of whatever
// kind, after Every.
type Handler struct {
	next slog.Handler
	// with is the text of the attributes and groups of all records.
	with string
	seen *seen
}

var _ slog.Handler = (*Handler)(nil)

// seen has the messages of all handlers that were made from one.
type seen struct {
	mu       sync.Mutex
	messages map[string]*message
	// due is when the first of them is to be looked at again, zero if there is none.
	due time.Time
}

// message was passed on at a time, and came more often since then.
type message struct {
	at       time.Time
	repeated int
	// latest is the last record that was held back, to the handler that it goes to.
	latest slog.Record
	to     slog.Handler
}

// New returns a handler before another.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, seen: &seen{messages: map[string]*message{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.with)
	for _, a := range attrs {
		write(&b, a)
	}
	return &Handler{h.next.WithAttrs(attrs), b.String(), h.seen}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.with + name + "\x00", h.seen}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	first := r.Level < slog.LevelWarn || h.seen.first(h.text(r), r, h.next)
	var err error
	for _, m := range h.seen.overdue(r.Time) {
		m.latest.AddAttrs(slog.Int("repeated", m.repeated))
		err = errors.Join(err, m.to.Handle(ctx, m.latest))
	}
	if first {
		err = errors.Join(err, h.next.Handle(ctx, r))
	}
	return err
}

// first reports whether a message is to be passed on, and counts it if not.
func (s *seen) first(text string, r slog.Record, to slog.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[text]
	if m != nil && (m.repeated > 0 || r.Time.Sub(m.at) < Every) {
		m.repeated++
		m.latest, m.to = r.Clone(), to
		return false
	}
	if m == nil && len(s.messages) >= MessagesMax {
		s.forgetOne()
	}
	if m != nil || len(s.messages) < MessagesMax {
		s.messages[text] = &message{at: r.Time}
		if s.due.IsZero() {
			s.due = r.Time.Add(Every)
		}
	}
	return true
}

// forgetOne makes room by forgetting a message that did not come again, if there is one.
func (s *seen) forgetOne() {
	for text, m := range s.messages {
		if m.repeated == 0 {
			delete(s.messages, text)
			return
		}
	}
}

// overdue returns the messages that were held back for long enough, and forgets those that
// did not come again.
func (s *seen) overdue(now time.Time) (all []message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.IsZero() || now.Before(s.due) {
		return nil
	}
	s.due = time.Time{}
	for text, m := range s.messages {
		if now.Sub(m.at) >= Every {
			if m.repeated == 0 {
				delete(s.messages, text)
				continue
			}
			all = append(all, *m)
			*m = message{at: now}
		}
		if due := m.at.Add(Every); s.due.IsZero() || due.Before(s.due) {
			s.due = due
		}
	}
	return all
}

// text is what makes a record the same message as another.
func (h *Handler) text(r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Level.String() + "\x00" + r.Message + "\x00" + h.with)
	r.Attrs(func(a slog.Attr) bool {
		write(&b, a)
		return true
	})
	return b.String()
}

func write(b *strings.Builder, a slog.Attr) {
	text := a.Value.String()
	switch a.Value.Kind() {
	case slog.KindTime, slog.KindDuration:
		text = "" // when, and how long it took, differ each time
	}
	if err, ok := a.Value.Any().(error); ok {
		if e, ok := errors.AsType[*broker.Error](err); ok && !errors.Is(e.Kind, broker.ErrTooLarge) && !errors.Is(e.Kind, broker.ErrInvalid) {
			text = fmt.Sprint(e.Kind, e.Cause)
		}
	}
	b.WriteString(a.Key + "=" + text + "\x00")
}
