package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
)

// Config configures a server and its callers. Only Broker is required.
type Config struct {
	// Broker is the store. The server does not close it.
	Broker broker.Broker
	// Namespace is the namespace of the tasks; empty means windlass.NamespaceDefault.
	Namespace string
	// Prefix is the prefix of all paths, such as "/windlass", without a slash at its
	// end. Empty means none.
	Prefix string

	// LocalRole is the role of every user of this machine if there are no tokens,
	// client certificates or Authenticate. Zero means RoleView: callers who may submit
	// tasks can run commands as the nodes' user.
	LocalRole Role
	// Tokens are the tokens that callers may present; nil means none.
	Tokens *Tokens
	// CertificateRole is the role of callers with a client certificate that the TLS
	// configuration of the listener has verified. Zero means that certificates give no
	// role.
	CertificateRole Role
	// Authenticate, if set, identifies the caller in the application's own way, before
	// tokens and certificates; if it returns false, those decide. It must not read the
	// body.
	Authenticate func(*http.Request) (Caller, bool)
	// Hosts are the host names that requests may be addressed to, with a port or, for
	// any port, without. Empty means localhost, 127.0.0.1 and [::1].
	Hosts []string
	// Origins are those of web pages on other sites that may make changes, such as
	// "https://ops.example.com". Empty means none.
	Origins []string
	// ReadOnly refuses every change, whoever the caller is.
	ReadOnly bool

	// Dashboard serves the pages of package dashboard at Prefix and a slash, to
	// everyone who may send requests at all: they hold no data.
	Dashboard bool
	// BrokerKind is the kind of the broker as shown to viewers, such as "etcd". Empty
	// omits it.
	BrokerKind string
	// Sessions, if set, returns the sessions of the nodes that run in this process, for
	// /v1/health. It must not block.
	Sessions func() []Session

	// Check, if set, may refuse a task or a job before it is submitted, with a
	// *windlass.BadInputError.
	Check func(windlass.Submission) error
	// Logger receives errors of the server itself; nil means slog.Default().
	Logger *slog.Logger
	// Audit receives one record for every attempted change; nil means Logger.
	Audit *slog.Logger
	// Metrics serves /metrics, which requires RoleView; nil means no such path.
	Metrics http.Handler
	// Tracer, if set, makes spans of submissions, below the span that a request's
	// traceparent names.
	Tracer events.Tracer
	// Limits limits what callers may use.
	Limits Limits
}

// Limits limits what callers may use. Each zero value means the default that is named.
type Limits struct {
	// ConnectionsMax limits the connections, and half of it the connections of one
	// address: one too many replaces an idle one. The default is a quarter of the files
	// that the process may have open, at most 1024. It applies to Serve only: your own
	// server has its own limit.
	ConnectionsMax int
	// BodyBytesMax limits the body of a request; 4 MiB.
	BodyBytesMax int64
	// HeaderTimeout limits how long the header of a request may take to arrive; 10 s.
	// It applies to Serve only: your own server has its own limit.
	HeaderTimeout time.Duration
	// BodyTimeout limits how long a body may take to arrive; 10 s.
	BodyTimeout time.Duration
	// RequestTimeout limits the work on a request, except for requested waiting and for
	// event streams; 30 s.
	RequestTimeout time.Duration
	// WriteTimeout limits how long a client may take to read an answer, or one event;
	// 20 s.
	WriteTimeout time.Duration
	// WaitMax limits the waiting that a request may ask for; 60 s.
	WaitMax time.Duration
	// Rate is how many requests per second a caller may make, and RateBurst how many at
	// once; 50 and 200. A caller is identified by its token's name, or else by its
	// address.
	Rate      float64
	RateBurst int
	// RequestsMax limits the concurrent requests to the broker of all callers, waiting
	// ones included; 256. Callers with RoleView can use three quarters of them, and one
	// caller half of its role's part.
	RequestsMax int
	// ViewersMax limits the concurrent streams of events; 200. Callers with RoleView
	// can use three quarters of them, and one caller half of its role's part.
	ViewersMax int
	// ViewerEventsMax is how many events a viewer may lag behind before it is cut off;
	// 1024.
	ViewerEventsMax int
	// EventsKeptMax is how many events are kept for viewers that reconnect; 8192.
	EventsKeptMax int
	// Heartbeat is the interval of heartbeats in a stream without events; 15 s.
	Heartbeat time.Duration
	// ListMax limits the tasks of one page of a list, and those of one command by
	// selection; 10000. It also limits the tasks in memory for the answers to one
	// caller, and twice as many for all callers. An operation that needs all tasks or
	// jobs counts as ListMax.
	ListMax int
}

const (
	// BatchMax limits the tasks, or jobs, of one request, and the jobs that it makes.
	BatchMax = 10_000
	// LooksMax limits the jobs of one request that look for others, by a pattern or to cascade: each reads
	// the whole tree.
	LooksMax = 100
)

// withDefaults fills in the default of every zero field.
func (l Limits) withDefaults() Limits {
	l.BodyBytesMax = cmp.Or(l.BodyBytesMax, 4<<20)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, 10*time.Second)
	l.RequestTimeout = cmp.Or(l.RequestTimeout, 30*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 20*time.Second)
	l.WaitMax = cmp.Or(l.WaitMax, time.Minute)
	l.Rate = cmp.Or(l.Rate, 50)
	l.RateBurst = cmp.Or(l.RateBurst, 200)
	l.RequestsMax = cmp.Or(l.RequestsMax, 256)
	l.ViewersMax = cmp.Or(l.ViewersMax, 200)
	l.ViewerEventsMax = cmp.Or(l.ViewerEventsMax, 1024)
	l.EventsKeptMax = cmp.Or(l.EventsKeptMax, 8192)
	l.Heartbeat = cmp.Or(l.Heartbeat, 15*time.Second)
	l.ListMax = cmp.Or(l.ListMax, 10_000)
	return l
}

func (l Limits) validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"ConnectionsMax", float64(l.ConnectionsMax)}, {"BodyBytesMax", float64(l.BodyBytesMax)}, {"HeaderTimeout", float64(l.HeaderTimeout)}, {"BodyTimeout", float64(l.BodyTimeout)}, {"RequestTimeout", float64(l.RequestTimeout)},
		{"WriteTimeout", float64(l.WriteTimeout)}, {"WaitMax", float64(l.WaitMax)}, {"Rate", l.Rate}, {"RateBurst", float64(l.RateBurst)},
		{"RequestsMax", float64(l.RequestsMax)}, {"ViewersMax", float64(l.ViewersMax)}, {"ViewerEventsMax", float64(l.ViewerEventsMax)}, {"EventsKeptMax", float64(l.EventsKeptMax)},
		{"Heartbeat", float64(l.Heartbeat)}, {"ListMax", float64(l.ListMax)},
	} {
		if f.value < 0 {
			return badInput("Limits."+f.name, f.value, "must not be negative")
		}
	}
	return nil
}

func (c Config) validate() error {
	switch {
	case c.Broker == nil:
		return badInput("Broker", "", "must be set")
	case c.Prefix != "" && (path.Clean(c.Prefix) != c.Prefix || !strings.HasPrefix(c.Prefix, "/") || c.Prefix == "/"):
		return badInput("Prefix", c.Prefix, `must begin with a slash, not end with one, and have no "." or ".."`)
	case (&url.URL{Path: c.Prefix}).EscapedPath() != c.Prefix || strings.ContainsAny(c.Prefix, "{}"):
		return badInput("Prefix", c.Prefix, "must have only characters that a URL needs not escape")
	case c.LocalRole < 0 || c.LocalRole > RoleAdmin:
		return badInput("LocalRole", int(c.LocalRole), "must be one of the roles, or zero")
	case c.CertificateRole < 0 || c.CertificateRole > RoleAdmin:
		return badInput("CertificateRole", int(c.CertificateRole), "must be one of the roles, or zero")
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			return badInput("Hosts", host, "must be a host name or address, with a port or without")
		}
	}
	return c.Limits.validate()
}

// open reports whether callers need not identify themselves.
func (c Config) open() bool {
	return c.Tokens == nil && c.CertificateRole == 0 && c.Authenticate == nil
}

// CheckListen refuses an address on which this configuration must not listen: one that
// others can reach, while callers need not identify themselves or none of its names is
// in Hosts.
func (c Config) CheckListen(address net.Addr) error {
	if _, unix := address.(*net.UnixAddr); unix || isLoopback(address.String()) {
		return nil
	}
	if c.open() {
		return badInput("listen", address, "must be a loopback address unless tokens or client certificates are configured")
	}
	if len(c.Hosts) == 0 {
		return badInput("listen", address, "is no loopback address, so the names that clients call it by must be configured as hosts")
	}
	return nil
}

// isLoopback reports whether host:port is reachable from this machine only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func badInput(field string, value any, limit string) error {
	return &windlass.BadInputError{Field: field, Value: fmt.Sprint(value), Limit: limit}
}
