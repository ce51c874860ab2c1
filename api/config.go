package api

import (
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
)

// Config says what is served, and to whom. Only Broker is needed.
type Config struct {
	// Broker to ask. The server does not close it.
	Broker broker.Broker
	// Namespace of the tasks; empty is windlass.NamespaceDefault.
	Namespace string
	// Prefix of all paths, such as "/windlass", without a slash at its end. Empty is
	// none.
	Prefix string

	// LocalRole is the role of every user of this machine where there are no tokens,
	// client certificates or Authenticate. Zero is RoleView: who may submit tasks has
	// commands run as the user of the nodes.
	LocalRole Role
	// Tokens that callers may show; nil for none.
	Tokens *Tokens
	// CertificateRole is the role of who shows a client certificate that the TLS
	// configuration of the listener has verified. Zero: certificates give none.
	CertificateRole Role
	// Authenticate is your own way to tell who calls, asked before tokens and
	// certificates; false leaves it to those. It must not read the body. Nil for none.
	Authenticate func(*http.Request) (Caller, bool)
	// Hosts are the names that requests may be addressed to, with a port or, for any
	// port, without. Empty means localhost, 127.0.0.1 and [::1].
	Hosts []string
	// Origins of web pages elsewhere that may change something, such as
	// "https://ops.example.com". Empty for none.
	Origins []string
	// ReadOnly refuses every change, whoever asks.
	ReadOnly bool

	// Dashboard serves the pages of package dashboard at Prefix and a slash, to
	// everyone who may send requests at all: they hold no data.
	Dashboard bool
	// BrokerKind tells viewers which broker it is, such as "etcd". Empty tells nothing.
	BrokerKind string
	// Sessions are those of the nodes that run in this process, for /v1/health. It must
	// not block. Nil for none.
	Sessions func() []Session

	// Check may refuse a task, or a job, before it is submitted, with a
	// *windlass.BadInputError. Nil refuses nothing.
	Check func(windlass.Submission) error
	// Logger for what goes wrong in the server itself; nil is slog.Default().
	Logger *slog.Logger
	// Audit gets one record for every change that was tried; nil is Logger.
	Audit *slog.Logger
	// Metrics answers /metrics, which takes RoleView; nil for no such path.
	Metrics http.Handler
	// Tracer, if set, makes spans of what is submitted, below that which a request's
	// traceparent names.
	Tracer windlass.Tracer
	// Limits of what callers may use.
	Limits Limits
}

// Limits of what callers may use. Each zero value is the default that is named.
type Limits struct {
	// ConnectionsMax bounds the connections, and half of it those of one address: one too
	// many takes the place of an idle one. A quarter of the files that the process may have
	// open, at most 1024. It counts with Serve only: a server of yours has its own.
	ConnectionsMax int
	// BodyBytesMax bounds the body of a request; 4 MiB.
	BodyBytesMax int64
	// HeaderTimeout bounds how long the header of a request may take to arrive; 10 s.
	// It counts with Serve only: a server of yours has its own.
	HeaderTimeout time.Duration
	// BodyTimeout bounds how long a body may take to arrive; 10 s.
	BodyTimeout time.Duration
	// RequestTimeout bounds the work on a request, other than on waiting that it
	// asks for and on events; 30 s.
	RequestTimeout time.Duration
	// WriteTimeout bounds how long a client may take to read an answer, or one
	// event; 20 s.
	WriteTimeout time.Duration
	// WaitMax bounds the waiting that a request may ask for; 60 s.
	WaitMax time.Duration
	// Rate is how many requests a second a caller may make, and RateBurst how many at
	// once; 50 and 200. A caller is a token's name, or else an address.
	Rate      float64
	RateBurst int
	// RequestsMax bounds the requests to the broker that are under way at a time, of
	// all callers, those that wait included; 256. Callers with RoleView have three
	// quarters of them, and one caller half of what its role has.
	RequestsMax int
	// ViewersMax bounds the streams of events at a time; 200. Callers with RoleView have
	// three quarters of them, and one caller half of what its role has.
	ViewersMax int
	// ViewerEventsMax is by how many events a viewer may be behind before it is cut
	// off; 1024.
	ViewerEventsMax int
	// EventsKeptMax is how many events are kept for viewers that come back; 8192.
	EventsKeptMax int
	// Heartbeat is how often a stream without events says that it is alive; 15 s.
	Heartbeat time.Duration
	// ListMax bounds the tasks of one page of a list, and those of one command by
	// selection; 10000. Answers to one caller have so many tasks in memory at a time, and
	// those to all twice as many; what needs all tasks or jobs counts as that.
	ListMax int
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	set(&l.BodyBytesMax, 4<<20)
	set(&l.HeaderTimeout, 10*time.Second)
	set(&l.BodyTimeout, 10*time.Second)
	set(&l.RequestTimeout, 30*time.Second)
	set(&l.WriteTimeout, 20*time.Second)
	set(&l.WaitMax, time.Minute)
	set(&l.Rate, 50)
	set(&l.RateBurst, 200)
	set(&l.RequestsMax, 256)
	set(&l.ViewersMax, 200)
	set(&l.ViewerEventsMax, 1024)
	set(&l.EventsKeptMax, 8192)
	set(&l.Heartbeat, 15*time.Second)
	set(&l.ListMax, 10_000)
	return l
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
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

// validate refuses a configuration that makes no sense.
func (c Config) validate() error {
	switch {
	case c.Broker == nil:
		return badInput("Broker", "", "must be set")
	case c.Prefix != "" && (path.Clean(c.Prefix) != c.Prefix || !strings.HasPrefix(c.Prefix, "/") || c.Prefix == "/"):
		return badInput("Prefix", c.Prefix, `must begin with a slash, not end with one, and have no "." or ".."`)
	case (&url.URL{Path: c.Prefix}).EscapedPath() != c.Prefix || strings.ContainsAny(c.Prefix, "{}"):
		return badInput("Prefix", c.Prefix, "must have only characters that stand in a URL as they are")
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

// open tells whether nobody has to show who they are.
func (c Config) open() bool {
	return c.Tokens == nil && c.CertificateRole == 0 && c.Authenticate == nil
}

// CheckListen refuses an address on which this configuration must not listen: one
// that others can reach, while nobody has to show who they are, or while no name of
// it is in Hosts.
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

// isLoopback tells whether host:port is of this machine alone.
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
