package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/view"
)

// identity is who calls, and where. Its JSON is stable.
type identity struct {
	Name      string `json:"name" doc:"of the caller"`
	Role      string `json:"role" enum:"view,operate,admin" doc:"what it may do"`
	ReadOnly  bool   `json:"read_only" doc:"this server changes nothing, whoever asks"`
	Namespace string `json:"namespace"`
	Broker    string `json:"broker" doc:"which kind of broker it is, for people; empty if that is not configured"`
	Version   string `json:"version" doc:"of this program"`
}

// health is how the broker and the nodes of this process do. Its JSON is stable.
type health struct {
	Broker   brokerHealth `json:"broker"`
	Sessions []Session    `json:"sessions" doc:"of the nodes that run in this process"`
	Viewers  int          `json:"viewers" doc:"streams of events at present"`
}

// brokerHealth is what the latest probe of the broker has found.
type brokerHealth struct {
	OK             bool      `json:"ok"`
	LatencySeconds float64   `json:"latency_seconds" doc:"how long the broker took to answer one read, or how long it was waited for"`
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
	}, false, func(ctx context.Context, _ *noBody) (*ok[identity], error) {
		caller, _ := ctx.Value(callerKey{}).(Caller)
		return &ok[identity]{identity{
			Name: caller.Name, Role: caller.Role.String(), ReadOnly: s.config.ReadOnly, Namespace: s.config.Namespace,
			Broker: s.config.BrokerKind, Version: view.BuildVersion().Version,
		}}, nil
	})
	add(s, endpoint{ID: "health", Method: http.MethodGet, Path: "/v1/health", Tag: tag, Offline: true,
		Summary: "How fast the broker answers, and how the sessions of this process do",
		Description: "The server reads one key of the broker, once in two seconds at most and only while somebody asks here; all who ask share " +
			"the answer. A broker that does not answer is a 200 as well, and not ok.",
	}, false, func(ctx context.Context, _ *noBody) (*ok[health], error) {
		h := health{Broker: s.probe.check(ctx, s.config), Sessions: []Session{}, Viewers: s.hub.count()}
		if s.config.Sessions != nil {
			h.Sessions = append(h.Sessions, s.config.Sessions()...)
		}
		return &ok[health]{h}, nil
	})
}

// callerKey is of the caller in the context of a request.
type callerKey struct{}

// probe measures the broker for all who ask: some have no token, and must not be a way
// to burden it.
type probe struct {
	// turn has one element while somebody measures; the rest is of whoever has it.
	turn chan struct{}
	last brokerHealth
	at   time.Time
}

const (
	probeFor    = 2 * time.Second
	probeWithin = 2 * time.Second
	// probeKey need not exist: that it does not is an answer, too.
	probeKey = "/health"
)

// check is the latest measurement, or a new one if that is old. Those who come while
// it is made wait for it, unless they leave.
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
	// The measurement is for others as well, so that the leaving of who asks does not count.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWithin)
	defer cancel()
	began := time.Now()
	_, err := c.Broker.Get(ctx, c.Namespace+probeKey)
	// The moment counts from the answer: those who waited for it have it as well, and do
	// not ask one after the other a broker that hangs.
	p.at = time.Now()
	p.last = brokerHealth{OK: true, LatencySeconds: p.at.Sub(began).Seconds(), MeasuredAt: p.at.UTC()}
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		c.Logger.Warn("the broker does not answer a probe", "error", err, "took", p.at.Sub(began))
		p.last.OK, p.last.Problem = false, problemOf(err).Code
	}
	return p.last
}
