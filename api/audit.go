package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
)

// requestState is in the context of every request.
type requestState struct {
	caller  Caller
	content []byte // of the body, until it is decoded
	code    string // of the problem that it is answered with

	mu       sync.Mutex
	attrs    []slog.Attr // for the audit record
	outcome  string      // for it, if the status does not say it
	answered []func()    // called once the request is answered
	decoded  func()      // called once the body is decoded
}

// release gives back what the request holds.
func (t *requestState) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range t.answered {
		done()
	}
}

type requestStateKey struct{}

func stateOf(ctx context.Context) *requestState { return ctx.Value(requestStateKey{}).(*requestState) }

// note adds attributes to the audit record of the request. They must be names and numbers
// only, since properties, data and results may be secret.
func note(ctx context.Context, attrs ...slog.Attr) {
	t := stateOf(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(shorten.To(a.Value.String(), auditBytesMax))
		}
		t.attrs = append(t.attrs, a)
	}
}

// noteSum adds to the audit record how much of a request was done and how much failed.
func noteSum(ctx context.Context, done slog.Attr, failed int) {
	note(ctx, done, slog.Int("failed", failed))
	t := stateOf(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case failed > 0 && done.Value.Int64() > 0:
		t.outcome = "partly"
	case failed > 0:
		t.outcome = "failed"
	}
}

// firstMax is how many of several tasks or jobs a record names.
const firstMax = 5

// firstOf names the first of several tasks or jobs.
func firstOf[T ~string](names []T) string {
	var first []string
	for _, name := range names[:min(len(names), firstMax)] {
		first = append(first, string(name))
	}
	return strings.Join(first, " ")
}

// auditBytesMax bounds each text of a record. Names are noted before they are checked, and
// a name may be as long as a body.
const auditBytesMax = 1024

// audit records one attempted change. Attempts of unknown callers are recorded at most as
// often as the rate limit allows, so that they cannot fill a disk.
func (s *Server) audit(r *http.Request, e *endpoint, t *requestState, status int, began time.Time) {
	if status == http.StatusTooManyRequests || t.caller == (Caller{}) && !s.limiter.allow("audit "+addressOf(r)) {
		return
	}
	outcome := "done"
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusMisdirectedRequest:
		outcome = "refused"
	case status >= http.StatusBadRequest:
		outcome = "failed"
	}
	t.mu.Lock()
	attrs := slices.Clone(t.attrs)
	if outcome == "done" {
		outcome = cmp.Or(t.outcome, outcome)
	}
	t.mu.Unlock()
	if t.code != "" {
		attrs = append(attrs, slog.String("code", t.code))
	}
	attrs = append([]slog.Attr{
		slog.String("who", t.caller.Name), slog.String("role", t.caller.Role.String()), slog.String("from", r.RemoteAddr),
		slog.String("what", e.ID), slog.String("path", shorten.To(r.URL.EscapedPath(), auditBytesMax)), slog.String("outcome", outcome), slog.Int("status", status),
		slog.Duration("took", time.Since(began)),
	}, attrs...)
	s.config.Audit.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "change", attrs...)
}
