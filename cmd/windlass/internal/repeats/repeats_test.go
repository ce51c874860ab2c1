package repeats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// written is a log, with the times as seconds since its beginning.
type written struct {
	*Handler
	out  bytes.Buffer
	when time.Time
}

func newLog() *written {
	w := &written{when: time.Unix(0, 0)}
	w.Handler = New(slog.NewTextHandler(&w.out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Int64("at", a.Value.Time().Unix())
		}
		return a
	}}))
	return w
}

// log logs to a handler, which may be one made from it.
func (w *written) log(t *testing.T, h slog.Handler, level slog.Level, text string, attrs ...slog.Attr) {
	t.Helper()
	r := slog.NewRecord(w.when, level, text, 0)
	r.AddAttrs(attrs...)
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (w *written) want(t *testing.T, lines ...string) {
	t.Helper()
	if got, want := strings.TrimSpace(w.out.String()), strings.Join(lines, "\n"); got != want {
		t.Errorf("the log is\n%s\nwant\n%s", got, want)
	}
	w.out.Reset()
}

// Regression: etcd says every 30 s that it still has a file open that it would remove.
func TestHandler_SaysTheSameOnceAndLaterHowOften(t *testing.T) {
	w := newLog()
	for range 21 { // ten minutes
		w.log(t, w, slog.LevelWarn, "failed to lock file", slog.String("path", "a.wal"))
		w.when = w.when.Add(30 * time.Second)
	}
	w.want(t,
		`at=0 level=WARN msg="failed to lock file" path=a.wal`,
		`at=300 level=WARN msg="failed to lock file" path=a.wal repeated=10`,
		`at=600 level=WARN msg="failed to lock file" path=a.wal repeated=10`,
	)
	w.when = w.when.Add(time.Hour)
	w.log(t, w, slog.LevelWarn, "failed to lock file", slog.String("path", "a.wal"))
	w.want(t, `at=4230 level=WARN msg="failed to lock file" path=a.wal`)
	w.when = w.when.Add(Every)
	w.log(t, w, slog.LevelInfo, "joined")
	w.log(t, w, slog.LevelWarn, "failed to lock file", slog.String("path", "a.wal"))
	w.want(t, `at=4530 level=INFO msg=joined`, `at=4530 level=WARN msg="failed to lock file" path=a.wal`)
}

func TestHandler_CountsTroubleOfTheBrokerByItsCause(t *testing.T) {
	w := newLog()
	trouble := func(task int, cause string) slog.Attr {
		err := broker.NewError("commit", fmt.Sprint("/tasks/", task), broker.ErrUnavailable, errors.New(cause))
		return slog.Any("error", fmt.Errorf("claim %d: %w", task, err))
	}
	for task := range 78 {
		w.log(t, w, slog.LevelWarn, "broker trouble", trouble(task, "too many requests"))
	}
	w.log(t, w, slog.LevelWarn, "broker trouble", trouble(1, "no route"))
	w.when = w.when.Add(Every)
	w.log(t, w, slog.LevelInfo, "claimed") // of whatever kind
	w.want(t,
		`at=0 level=WARN msg="broker trouble" error="claim 0: commit /tasks/0: broker unavailable: too many requests"`,
		`at=0 level=WARN msg="broker trouble" error="claim 1: commit /tasks/1: broker unavailable: no route"`,
		`at=0 level=WARN msg="broker trouble" error="claim 77: commit /tasks/77: broker unavailable: too many requests" repeated=77`,
		`at=300 level=INFO msg=claimed`,
	)
}

func TestHandler_WhatDiffersIsAllSaid(t *testing.T) {
	w := newLog()
	one, two := w.WithAttrs([]slog.Attr{slog.String("node", "n1")}), w.WithAttrs([]slog.Attr{slog.String("node", "n2")})
	for range 2 {
		w.log(t, one, slog.LevelInfo, "claimed")
		w.log(t, one, slog.LevelWarn, "failed", slog.String("task", "a"))
		w.log(t, two, slog.LevelWarn, "failed", slog.String("task", "a"))
		w.log(t, one, slog.LevelError, "failed", slog.String("task", "a"))
		w.log(t, one.WithGroup("g"), slog.LevelWarn, "failed", slog.String("task", "a"))
		w.log(t, one, slog.LevelWarn, "failed", slog.String("task", "b"))
	}
	w.want(t,
		`at=0 level=INFO msg=claimed node=n1`, `at=0 level=WARN msg=failed node=n1 task=a`, `at=0 level=WARN msg=failed node=n2 task=a`,
		`at=0 level=ERROR msg=failed node=n1 task=a`, `at=0 level=WARN msg=failed node=n1 g.task=a`, `at=0 level=WARN msg=failed node=n1 task=b`,
		`at=0 level=INFO msg=claimed node=n1`,
	)
}

func TestHandler_RemembersSoManyMessages(t *testing.T) {
	w := newLog()
	for i := range 3 * MessagesMax {
		w.log(t, w, slog.LevelWarn, fmt.Sprint(i))
	}
	for range 3 {
		w.log(t, w, slog.LevelWarn, "again")
	}
	if n := len(w.seen.messages); n != MessagesMax || strings.Count(w.out.String(), "\n") != 3*MessagesMax+1 {
		t.Errorf("it remembers %d", n)
	}
	w.when = w.when.Add(Every)
	w.log(t, w, slog.LevelInfo, "later")
	w.when = w.when.Add(Every)
	w.log(t, w, slog.LevelInfo, "later")
	if n := len(w.seen.messages); n != 0 {
		t.Errorf("it still remembers %d", n)
	}
}

func TestHandler_TimesMakeNoOtherMessageAndRefusedValuesDo(t *testing.T) {
	w := newLog()
	for i := range 3 {
		w.log(t, w, slog.LevelWarn, "backs off", slog.Time("until", w.when.Add(time.Duration(i))), slog.Duration("took", time.Duration(i)))
		w.log(t, w, slog.LevelWarn, "trouble", slog.Any("error", fmt.Errorf("task %d: %w", i, broker.NewError("commit", "k", broker.ErrTooLarge, nil))))
	}
	if text := w.out.String(); strings.Count(text, "backs off") != 1 || strings.Count(text, "trouble") != 3 {
		t.Errorf("the log is\n%s", text)
	}
}
