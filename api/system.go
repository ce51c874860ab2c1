package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// alive is what a probe is told. Its JSON is stable.
type alive struct {
	Status string `json:"status" enum:"ok"`
}

func (s *Server) registerSystem() {
	const tag = "system"
	add(s, endpoint{ID: "live", Method: http.MethodGet, Path: "/livez", Tag: tag, Public: true, Offline: true,
		Summary: "Whether this process answers",
	}, false, func(context.Context, *noBody) (*ok[alive], error) { return &ok[alive]{alive{"ok"}}, nil })
	add(s, endpoint{ID: "ready", Method: http.MethodGet, Path: "/readyz", Tag: tag, Public: true,
		Summary:     "Whether the broker answers",
		Description: "It is asked once a second at most, however many ask here.",
	}, false, func(ctx context.Context, _ *noBody) (*ok[alive], error) {
		return answerWith(alive{"ok"}, s.ready.check(ctx, s.client, s.config.Logger))
	})
	add(s, endpoint{ID: "openapi", Method: http.MethodGet, Path: "/openapi.json", Tag: tag, Offline: true,
		Summary: "This document", Media: jsonType,
	}, false, func(context.Context, *noBody) (*openAPI, error) {
		return &openAPI{ContentType: jsonType, Body: s.document}, nil
	})
	add(s, endpoint{ID: "version", Method: http.MethodGet, Path: "/v1/version", Tag: tag, Offline: true,
		Summary: "The version of this program",
	}, false, func(context.Context, *noBody) (*ok[view.Version], error) {
		return &ok[view.Version]{view.BuildVersion()}, nil
	})
	if s.config.Metrics != nil {
		add(s, endpoint{ID: "metrics", Method: http.MethodGet, Path: "/metrics", Tag: tag, Offline: true,
			Summary: "The metrics of this process, for Prometheus", Media: "text/plain",
		}, false, func(context.Context, *noBody) (*stream, error) {
			return &stream{func(ctx huma.Context) {
				r, w := humago.Unwrap(ctx)
				s.config.Metrics.ServeHTTP(w, r)
			}}, nil
		})
	}
}

type openAPI struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// readiness remembers for a moment whether the broker answered: probes come
// without a token, and must not be a way to burden it.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const (
	readyFor = time.Second
	// readyWithin is how long the broker has to answer.
	readyWithin = 2 * time.Second
	// readyTask is a task that need not exist: that it does not is an answer, too.
	readyTask = "readyz"
)

func (r *readiness) check(ctx context.Context, c *windlass.Client, log *slog.Logger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		return r.err
	}
	// The answer is for others as well, so that the leaving of who asks does not count.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
	defer cancel()
	r.err = nil
	// The moment counts from the answer: those who waited for it have it as well, and
	// do not ask one after the other a broker that hangs.
	defer func() { r.at = time.Now() }()
	if _, err := c.Task(ctx, readyTask); err != nil && !errors.Is(err, windlass.ErrNotFound) {
		// Where the broker is, and what it says, is nothing for who has no token.
		log.Warn("the broker does not answer", "error", err)
		p := problem(http.StatusServiceUnavailable, "broker_unavailable", "the broker does not answer; the log of this server says why")
		p.retryAfter, r.err = retryAfterBroker, p
	}
	return r.err
}
