package zookeeper

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// Defaults and limits of Config.
const (
	// DialTimeoutDefault is used when Config.DialTimeout is zero.
	DialTimeoutDefault = 5 * time.Second
	// RequestTimeoutDefault is used when Config.RequestTimeout is zero.
	RequestTimeoutDefault = 5 * time.Second
	// TimeoutMax limits the timeouts.
	TimeoutMax = time.Minute
	// ServersMax limits the number of servers.
	ServersMax = 64
	// TickTimeDefault is used when Config.TickTime is zero.
	TickTimeDefault = 3 * time.Second
	// TickTimeMax limits Config.TickTime.
	TickTimeMax = time.Minute
	// MessageBytesDefault is used when Config.MessageBytes is zero. It is the
	// servers' own default.
	MessageBytesDefault = 1<<20 - 1
	// WideMax limits the number of names in Config.Wide.
	WideMax = 64
)

// WideDefault are the directories whose children are kept in buckets when
// Config.Wide is nil and the chroot is new.
var WideDefault = []string{"claims", "commands", "history", "progress", "state", "tasks", "tree"}

// Config configures a connection to an ensemble. Only Servers is required.
type Config struct {
	// Servers are the client addresses, "host:port", at least one and at most
	// ServersMax. List every member, so that one may fail.
	Servers []string

	// Chroot is the znode below which everything is stored, such as "/windlass". It is
	// created if it is missing. Empty means the root.
	Chroot string

	// DialTimeout limits Open: the time in which some server must answer. Zero means
	// DialTimeoutDefault; the maximum is TimeoutMax.
	DialTimeout time.Duration

	// RequestTimeout limits each call, including the time in which a lost connection is
	// restored. Zero means RequestTimeoutDefault; the maximum is TimeoutMax.
	RequestTimeout time.Duration

	// TickTime is the servers' tickTime, or more. Half of it is subtracted from a
	// session's TTL; see the package's documentation. Zero means TickTimeDefault; the
	// maximum is TickTimeMax. A value below the servers' makes sessions unsafe. If
	// theirs is above 3 s and their minSessionTimeout is the default, this is detected
	// and theirs is used.
	TickTime time.Duration

	// MessageBytes is the servers' jute.maxbuffer: the largest request they accept. A
	// larger request is ErrTooLarge. Zero means MessageBytesDefault, the servers' own
	// default. Every limit of package broker needs some 2 MiB.
	MessageBytes int

	// Wide lists the directories whose children are kept in buckets; at most WideMax.
	// It is set when the chroot is first used, and stored there. Nil means the stored
	// value, or WideDefault; any other value must equal the stored one.
	Wide []string

	// Username and Password are those of ZooKeeper's digest scheme; empty means none.
	// Without TLS they cross the network in the clear.
	Username string
	// Password goes with Username.
	Password string

	// ACL is set on every znode that is created, each entry as "scheme:id:permissions"
	// with permissions out of "cdrwa", such as "sasl:windlass:cdrwa". Empty grants
	// everything to the Username, or, if there is none, to everyone.
	ACL []string

	// TLS secures the connections. Nil means no TLS. It is not modified.
	TLS *tls.Config

	// Dial opens the connections. Nil means plain TCP. TLS is added on top of it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// String returns the configuration with its derived values and without secrets.
func (c Config) String() string {
	c = c.withDefaults()
	return fmt.Sprintf("zookeeper servers=%s chroot=%s tls=%t user=%s dial_timeout=%v request_timeout=%v tick_time=%v message_bytes=%d",
		strings.Join(c.Servers, ","), c.Chroot+"/", c.TLS != nil, cmp.Or(c.Username, "none"), c.DialTimeout, c.RequestTimeout, c.TickTime, c.MessageBytes)
}

// LogValue makes a structured logger print the result of String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, DialTimeoutDefault)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, RequestTimeoutDefault)
	c.TickTime = cmp.Or(c.TickTime, TickTimeDefault)
	c.MessageBytes = cmp.Or(c.MessageBytes, MessageBytesDefault)
	return c
}

// validate refuses what would not work.
func (c Config) validate() error {
	invalid := func(format string, args ...any) error {
		return broker.NewError("open", strings.Join(c.Servers, ","), broker.ErrInvalid, fmt.Errorf(format, args...))
	}
	if n := len(c.Servers); n == 0 || n > ServersMax {
		return invalid("%d servers; give 1 to %d", n, ServersMax)
	}
	for _, server := range c.Servers {
		if host, port, err := net.SplitHostPort(server); err != nil || host == "" || port == "" {
			return invalid("server %q: it is host:port", server)
		}
	}
	for _, timeout := range []time.Duration{c.DialTimeout, c.RequestTimeout, c.TickTime} {
		if timeout < 0 || timeout > TimeoutMax {
			return invalid("a timeout or tick of %v; the limit is %v", timeout, TimeoutMax)
		}
	}
	if c.MessageBytes < 0 || c.MessageBytes > wire.ReplyBytesMax {
		return invalid("message bytes %d; the limit is %d", c.MessageBytes, wire.ReplyBytesMax)
	}
	if c.Chroot != "" {
		if err := broker.CheckKey(c.Chroot); err != nil {
			return invalid("chroot %q: %w", c.Chroot, err)
		}
		if strings.ContainsFunc(c.Chroot, refused) {
			return invalid("chroot %q has a character that ZooKeeper or its escape forbids", c.Chroot)
		}
	}
	if len(c.Wide) > WideMax {
		return invalid("%d names of wide directories; the limit is %d", len(c.Wide), WideMax)
	}
	for _, name := range c.Wide {
		if name == "" || strings.Contains(name, "/") {
			return invalid("wide directory %q: it is one segment of a key", name)
		}
	}
	if (c.Username == "") != (c.Password == "") {
		return invalid("user name %q: user name and password go together", c.Username)
	}
	if strings.Contains(c.Username, ":") {
		return invalid("user name %q: it may have no colon", c.Username)
	}
	if _, err := c.acls(); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// permissions are the letters of an ACL in the order of their bits.
const permissions = "rwcda"

// acls returns the access control list of the znodes that we create.
func (c Config) acls() ([]wire.ACL, error) {
	switch {
	case len(c.ACL) == 0 && c.Username == "":
		return []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}, nil
	case len(c.ACL) == 0:
		return []wire.ACL{{Perms: wire.PermAll, Scheme: "auth"}}, nil
	}
	var all []wire.ACL
	for _, entry := range c.ACL {
		scheme, rest, _ := strings.Cut(entry, ":")
		last := strings.LastIndexByte(rest, ':')
		if scheme == "" || last < 0 || last == len(rest)-1 {
			return nil, fmt.Errorf("ACL %q: it is scheme:id:permissions", entry)
		}
		acl := wire.ACL{Scheme: scheme, ID: rest[:last]}
		for _, letter := range rest[last+1:] {
			bit := strings.IndexRune(permissions, letter)
			if bit < 0 {
				return nil, fmt.Errorf("ACL %q: permission %q is none of %s", entry, letter, permissions)
			}
			acl.Perms |= 1 << bit
		}
		all = append(all, acl)
	}
	return all, nil
}

// sessionACLs returns the access control list of a session's znode, which contains the
// password that resumes the session.
func (c Config) sessionACLs() []wire.ACL {
	if c.Username != "" {
		return []wire.ACL{{Perms: wire.PermAll, Scheme: "auth"}}
	}
	all, _ := c.acls() // validated
	return all
}

// wireConfig returns the settings that all connections share.
func (c Config) wireConfig() wire.Config {
	w := wire.Config{Dial: c.Dial}
	if c.Username != "" {
		w.Auth = []wire.Auth{{Scheme: "digest", Data: []byte(c.Username + ":" + c.Password)}}
	}
	if c.TLS != nil {
		w.Dial = c.dialTLS
	}
	return w
}

func (c Config) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := c.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return secure, nil
}
