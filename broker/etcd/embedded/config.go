package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Defaults and limits of Config.
const (
	// QuotaBytesDefault is used when Config.QuotaBytes is zero.
	QuotaBytesDefault = 2 << 30
	// QuotaBytesMax is as far as etcd is meant to go.
	QuotaBytesMax = 8 << 30
	// HistoryDefault is used when Config.History is zero.
	HistoryDefault = 5 * time.Minute
	// TickDefault is used when Config.Tick is zero, ElectionTicks of it for the
	// election timeout.
	TickDefault = 100 * time.Millisecond
	// TickMin and TickMax bound Config.Tick.
	TickMin = time.Millisecond
	// TickMax keeps the election timeout within etcd's limit of 50 s.
	TickMax = 5 * time.Second
	// ElectionTicks is the election timeout in ticks. No session is shorter
	// than one and a half of it.
	ElectionTicks = 10
)

// Config says how to run the server. Its zero value is a server without a
// listener in a temporary folder.
type Config struct {
	// Dir is the folder for the data, made if it does not exist. Empty is a new
	// temporary folder that Close removes.
	Dir string

	// Socket makes other processes of this user able to connect: they find the
	// way with Dial or Find. It needs a Dir that they know.
	Socket bool

	// Listener, if set, has clients come to the server over connections, as Socket does;
	// not both. It is for tests, of users with a password: a login is as cheap as can be.
	Listener net.Listener

	// Logger receives what etcd has to say; nil is silence. What is part of
	// every start and stop is at debug level, and so is all that etcd calls
	// information.
	Logger *slog.Logger

	// Fatal is told when etcd cannot go on, because its disk is full or gone, and
	// does not return: the process must end, for what etcd has in memory may be
	// more than it will find on its disk. Nil is a panic.
	Fatal func(text string)

	// QuotaBytes is the size of the database at which writes are refused with
	// broker.ErrNoSpace. Zero is QuotaBytesDefault; at most QuotaBytesMax.
	QuotaBytes int64

	// History is how long changes are kept for watches that come late; it is
	// compacted away after between one and two of it. Zero is HistoryDefault;
	// at least a second.
	History time.Duration

	// Tick is the heartbeat interval. Zero is TickDefault; TickMin to TickMax.
	// The shortest session is 15 ticks, rounded up to a second: 2 s by default.
	// It is for tests.
	Tick time.Duration

	// UnsafeNoFsync leaves writing to disk to the operating system. What was
	// acknowledged is then lost in a crash of the machine. It is for tests.
	UnsafeNoFsync bool

	// Between, if set, stands between each connection that Broker returns and the
	// server. It is for tests, of what another member would answer.
	Between func(pb.KVClient, pb.LeaseClient) (pb.KVClient, pb.LeaseClient)
}

// String prints the configuration with its derived values.
func (c Config) String() string {
	c = c.withDefaults()
	dir := c.Dir
	if dir == "" {
		dir = "temporary"
	}
	return fmt.Sprintf("embedded etcd dir=%s socket=%t quota_bytes=%d history=%v tick=%v election_timeout=%v fsync=%t",
		dir, c.Socket, c.QuotaBytes, c.History, c.Tick, c.Tick*ElectionTicks, !c.UnsafeNoFsync)
}

// LogValue makes a structured logger print what String prints.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults() Config {
	if c.QuotaBytes == 0 {
		c.QuotaBytes = QuotaBytesDefault
	}
	if c.History == 0 {
		c.History = HistoryDefault
	}
	if c.Tick == 0 {
		c.Tick = TickDefault
	}
	return c
}

// validate is for a Config with its defaults.
func (c Config) validate() error {
	if c.QuotaBytes < 0 || c.QuotaBytes > QuotaBytesMax {
		return fmt.Errorf("embedded etcd: a quota of %d bytes; the limit is %d", c.QuotaBytes, int64(QuotaBytesMax))
	}
	if c.History < time.Second {
		return fmt.Errorf("embedded etcd: a history of %v; the least is %v", c.History, time.Second)
	}
	if c.Tick < TickMin || c.Tick > TickMax {
		return fmt.Errorf("embedded etcd: a tick of %v; it is %v to %v", c.Tick, TickMin, TickMax)
	}
	if c.Socket && c.Listener != nil {
		return errors.New("embedded etcd: a socket and a listener; it serves one")
	}
	return nil
}
