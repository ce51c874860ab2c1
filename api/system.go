package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/windlass-go/windlass/internal/view"
)

// alive is the answer to a probe. Its JSON is stable.
type alive struct {
	Status string `json:"status" enum:"ok"`
}

func (s *Server) registerSystem() {
	const tag = "system"
	add(s, endpoint{ID: "live", Method: http.MethodGet, Path: "/livez", Tag: tag, Public: true, Offline: true,
		Summary: "Whether this process answers",
	}, func(context.Context, *noBody) (*ok[alive], error) { return &ok[alive]{alive{"ok"}}, nil })
	add(s, endpoint{ID: "ready", Method: http.MethodGet, Path: "/readyz", Tag: tag, Public: true,
		Summary:     "Whether the broker answers",
		Description: "The server asks it at most once in two seconds, however many requests there are.",
	}, func(ctx context.Context, _ *noBody) (*ok[alive], error) {
		if !s.probe.check(ctx, s.config).OK {
			// Callers need no token, so the answer has no address or error of the broker.
			p := problem(http.StatusServiceUnavailable, "broker_unavailable", "the broker does not answer; the log of this server says why")
			p.retryAfter = retryAfterBroker
			return nil, p
		}
		return &ok[alive]{alive{"ok"}}, nil
	})
	add(s, endpoint{ID: "openapi", Method: http.MethodGet, Path: "/openapi.json", Tag: tag, Offline: true,
		Summary: "This document", Media: jsonType,
	}, func(context.Context, *noBody) (*openAPI, error) {
		return &openAPI{ContentType: jsonType, Body: s.document}, nil
	})
	add(s, endpoint{ID: "version", Method: http.MethodGet, Path: "/v1/version", Tag: tag, Offline: true,
		Summary: "The version of this program",
	}, func(context.Context, *noBody) (*ok[view.Version], error) {
		return &ok[view.Version]{view.BuildVersion()}, nil
	})
	if s.config.Metrics != nil {
		add(s, endpoint{ID: "metrics", Method: http.MethodGet, Path: "/metrics", Tag: tag, Offline: true,
			Summary: "The metrics of this process, for Prometheus", Media: "text/plain",
		}, func(context.Context, *noBody) (*stream, error) {
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
