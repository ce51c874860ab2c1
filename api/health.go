package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/view"
)

// identity describes the caller and the server. Its JSON is stable.
type identity struct {
	Name      string `json:"name" doc:"of the caller"`
	Role      string `json:"role" enum:"view,operate,admin" doc:"what it may do"`
	ReadOnly  bool   `json:"read_only" doc:"whether this server refuses every change"`
	Namespace string `json:"namespace"`
	Broker    string `json:"broker" doc:"kind of the broker, for people; empty if it is not configured"`
	Version   string `json:"version" doc:"of this program"`
}

// health is the state of the broker and of this process's nodes. Its JSON is stable.
type health struct {
	Broker   brokerHealth `json:"broker"`
	Sessions []Session    `json:"sessions" doc:"of the nodes that run in this process"`
	Viewers  int          `json:"viewers" doc:"streams of events at present"`
}

// brokerHealth is the result of the latest probe.
type brokerHealth struct {
	OK             bool      `json:"ok"`
	LatencySeconds float64   `json:"latency_seconds" doc:"how long the server waited for the broker to answer one read"`
	MeasuredAt     time.Time `json:"measured_at"`
	Problem        string    `json:"problem,omitempty" doc:"why it is not ok: the code of an error of this API"`
}

// Session says how long a node of this process can continue without its broker. Its
// JSON is stable.
type Session struct {
	// Node is the name of the node.
	Node string `json:"node"`
	// MarginSeconds is the time in seconds until its handlers are told to stop unless
	// the session is renewed before; zero if it currently has no session.
	MarginSeconds float64 `json:"margin_seconds"`
	// FullSeconds is the margin right after a renewal.
	FullSeconds float64 `json:"full_seconds"`
}

func (s *Server) registerHealth() {
	const tag = "system"
	add(s, endpoint{ID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Tag: tag, Offline: true,
		Summary: "Who the caller is and what it may do",
	}, func(ctx context.Context, _ *noBody) (*ok[identity], error) {
		caller := stateOf(ctx).caller
		return &ok[identity]{identity{
			Name: caller.Name, Role: caller.Role.String(), ReadOnly: s.config.ReadOnly, Namespace: s.config.Namespace,
			Broker: s.config.BrokerKind, Version: view.BuildVersion().Version,
		}}, nil
	})
	add(s, endpoint{ID: "health", Method: http.MethodGet, Path: "/v1/health", Tag: tag, Offline: true,
		Summary: "How fast the broker answers, and the state of this process's sessions",
		Description: "The server reads one key of the broker, at most once in two seconds and only while there are requests, which share " +
			"the result. If the broker does not answer that is a 200 too, with ok false.",
	}, func(ctx context.Context, _ *noBody) (*ok[health], error) {
		h := health{Broker: s.probe.check(ctx, s.config), Sessions: []Session{}, Viewers: s.hub.count()}
		if s.config.Sessions != nil {
			h.Sessions = append(h.Sessions, s.config.Sessions()...)
		}
		return &ok[health]{h}, nil
	})
}

// probe measures the broker. All requests share a measurement, because some need no token
// and must not be able to load the broker.
type probe struct {
	// turn has one element during a measurement. Whoever sent it may use last and at.
	turn chan struct{}
	last brokerHealth
	at   time.Time
}

const (
	probeFor    = 2 * time.Second
	probeWithin = 2 * time.Second
	// probeKey need not exist: not found is an answer too.
	probeKey = "/health"
)

// check returns the latest measurement, or a new one if that is old. Requests that come
// during a measurement wait for it, unless their ctx ends.
func (p *probe) check(ctx context.Context, c Config) brokerHealth {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return brokerHealth{Problem: problemOf(ctx.Err()).Code}
	}
	if !p.at.IsZero() && time.Since(p.at) < probeFor {
		return p.last
	}
	// Others need the measurement even if this request ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWithin)
	defer cancel()
	began := time.Now()
	_, err := c.Broker.Get(ctx, c.Namespace+probeKey)
	// The age counts from the answer, so that the requests that waited for it use it too,
	// and do not each wait for a broker that hangs.
	p.at = time.Now()
	p.last = brokerHealth{OK: true, LatencySeconds: p.at.Sub(began).Seconds(), MeasuredAt: p.at.UTC()}
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		c.Logger.Warn("the broker does not answer a probe", "error", err, "took", p.at.Sub(began))
		p.last.OK, p.last.Problem = false, problemOf(err).Code
	}
	return p.last
}
