package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/internal/zaplog"
)

// Defaults and limits of Config.
const (
	// DialTimeoutDefault is used when Config.DialTimeout is zero.
	DialTimeoutDefault = 5 * time.Second
	// RequestTimeoutDefault is used when Config.RequestTimeout is zero. It
	// outlasts an election (1 to 2 s with etcd's defaults).
	RequestTimeoutDefault = 5 * time.Second
	// TimeoutMax limits both timeouts: waiting longer gives a caller no further
	// information.
	TimeoutMax = time.Minute
	// EndpointsMax limits the number of endpoints.
	EndpointsMax = 64
)

// A connection whose peer vanishes silently is detected within 13 seconds. etcd's
// servers end a connection that pings more often than every 5 seconds, or that pings
// while it has no stream, so pings are sent only along streams.
const (
	pingInterval = 10 * time.Second
	pingTimeout  = 3 * time.Second
)

// Limits of the pause before a lost connection is retried. gRPC's own, initially a
// second and finally two minutes, lost sessions to a store that was away for half a
// second.
const (
	redialMin = 100 * time.Millisecond
	redialMax = time.Second
)

// Config configures a connection to a cluster. Only Endpoints is required.
type Config struct {
	// Endpoints are the members' client addresses: "host:port", "http://host:port",
	// "https://host:port", "unix:///path" or "unixs:///path"; at least one, at most
	// EndpointsMax, and either all with TLS or all without. List every member, so that
	// one may fail.
	Endpoints []string

	// DialTimeout limits Open: the time in which some member must answer and know a
	// leader. Zero means DialTimeoutDefault; the maximum is TimeoutMax.
	DialTimeout time.Duration

	// RequestTimeout limits each request to the cluster, of which one call may make
	// several. Zero means RequestTimeoutDefault; the maximum is TimeoutMax.
	RequestTimeout time.Duration

	// TLS secures the connection: the roots, the client's certificate, the minimum
	// version. Nil means no TLS, except for https and unixs endpoints, which then use
	// the system's roots. It is not modified.
	TLS *tls.Config

	// Username and Password are those of an etcd user; empty means none. Without TLS
	// they cross the network in the clear. A client certificate whose common name is
	// the user needs neither.
	Username string
	// Password goes with Username.
	Password string

	// Logger receives the messages of the etcd client, all at debug level, because
	// important ones are returned as errors. Nil discards them.
	Logger *slog.Logger
}

// String returns the configuration with its derived values and without secrets.
func (c Config) String() string {
	c = c.withDefaults()
	return fmt.Sprintf("etcd endpoints=%s tls=%t user=%s dial_timeout=%v request_timeout=%v",
		strings.Join(c.Endpoints, ","), c.secure(), cmp.Or(c.Username, "none"), c.DialTimeout, c.RequestTimeout)
}

// LogValue makes a structured logger print the result of String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, DialTimeoutDefault)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, RequestTimeoutDefault)
	return c
}

func (c Config) secure() bool {
	return len(c.Endpoints) > 0 && endpointSecure(c.Endpoints[0], c.TLS != nil)
}

// endpointSecure reports whether the client uses TLS for an endpoint. For one without a
// scheme it depends on whether TLS is configured.
func endpointSecure(endpoint string, tlsConfigured bool) bool {
	scheme, _, found := strings.Cut(endpoint, "://")
	if !found {
		return tlsConfigured
	}
	return scheme == "https" || scheme == "unixs"
}

// validate also refuses endpoints with less protection than configured: the client takes the
// first endpoint's scheme for all of them, and ignores TLS if that scheme is a plain one.
func (c Config) validate() error {
	invalid := func(format string, args ...any) error {
		return broker.NewError("open", strings.Join(c.Endpoints, ","), broker.ErrInvalid, fmt.Errorf(format, args...))
	}
	if n := len(c.Endpoints); n == 0 || n > EndpointsMax {
		return invalid("%d endpoints; give 1 to %d", n, EndpointsMax)
	}
	for _, timeout := range []time.Duration{c.DialTimeout, c.RequestTimeout} {
		if timeout < 0 || timeout > TimeoutMax {
			return invalid("a timeout of %v; the limit is %v", timeout, TimeoutMax)
		}
	}
	for _, endpoint := range c.Endpoints {
		scheme, rest, found := strings.Cut(endpoint, "://")
		if endpoint == "" || (found && rest == "") {
			return invalid("endpoint %q has no address", endpoint)
		}
		if found && !strings.Contains(" http https unix unixs ", " "+scheme+" ") {
			return invalid("endpoint %q: the scheme is one of http, https, unix, unixs", endpoint)
		}
		if strings.HasPrefix(endpoint, "/") {
			return invalid("endpoint %q is a path; write unix://%s for a socket", endpoint, endpoint)
		}
		secure := endpointSecure(endpoint, c.TLS != nil)
		if c.TLS != nil && !secure {
			return invalid("endpoint %q is without TLS, but TLS is configured", endpoint)
		}
		if secure != c.secure() {
			return invalid("endpoint %q: either all endpoints use TLS or none", endpoint)
		}
	}
	if (c.Username == "") != (c.Password == "") {
		return invalid("user name and password go together")
	}
	return nil
}

// client returns an etcd client. It does not wait for a connection, except that it logs in
// if there is a user.
func (c Config) client(ctx context.Context) (*clientv3.Client, error) {
	// The client's own context must outlive ctx, which limits only this function.
	life, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		DialTimeout:          c.DialTimeout,
		DialKeepAliveTime:    pingInterval,
		DialKeepAliveTimeout: pingTimeout,
		PermitWithoutStream:  false,
		TLS:                  c.TLS,
		Username:             c.Username,
		Password:             c.Password,
		Logger:               zaplog.New(c.Logger, zaplog.AllDebug, nil),
		Context:              life,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: redialMin, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: redialMax,
			},
			MinConnectTimeout: c.DialTimeout,
		}), grpc.WithChainUnaryInterceptor(noteAsked)},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	if !stop() {
		err = errors.Join(context.Cause(ctx), client.Close())
		return nil, err
	}
	return client, nil
}
