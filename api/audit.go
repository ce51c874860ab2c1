package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
)

// auditFields is what is known of one request besides: what the audit log will say about it, to
// which handlers add what they did, and what is to be given back.
type auditFields struct {
	mu    sync.Mutex
	attrs []slog.Attr
	// answered is called once the request is answered.
	answered []func()
}

// release gives back what the request holds.
func (t *auditFields) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range t.answered {
		done()
	}
}

type auditFieldsKey struct{}

// note adds to the audit log of the request what it is about. Only names and
// numbers belong there: properties, data and results may hold what is nobody's
// business.
func note(ctx context.Context, attrs ...slog.Attr) {
	if t, ok := ctx.Value(auditFieldsKey{}).(*auditFields); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, a := range attrs {
			if a.Value.Kind() == slog.KindString {
				a.Value = slog.StringValue(shorten.To(a.Value.String(), auditBytesMax))
			}
			t.attrs = append(t.attrs, a)
		}
	}
}

// auditBytesMax bounds each text of a record. Names are noted before they are
// checked, and a body may be one long name.
const auditBytesMax = 1024

// audit writes down one change that was tried. Those of nobody known are written down
// as often as anyone may ask, so that they cannot fill a disk.
func (s *Server) audit(r *http.Request, e *endpoint, caller Caller, t *auditFields, status int, began time.Time) {
	if status == http.StatusTooManyRequests || caller == (Caller{}) && !s.limiter.allow("audit "+addressOf(r)) {
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
	t.mu.Unlock()
	attrs = append([]slog.Attr{
		slog.String("who", caller.Name), slog.String("role", caller.Role.String()), slog.String("from", r.RemoteAddr),
		slog.String("what", e.ID), slog.String("path", shorten.To(r.URL.EscapedPath(), auditBytesMax)), slog.String("outcome", outcome), slog.Int("status", status),
		slog.Duration("took", time.Since(began)),
	}, attrs...)
	s.config.Audit.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "change", attrs...)
}
