package embedded

import (
	"cmp"
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
	// QuotaBytesMax is the largest database that etcd is meant for.
	QuotaBytesMax = 8 << 30
	// HistoryDefault is used when Config.History is zero.
	HistoryDefault = 5 * time.Minute
	// TickDefault is used when Config.Tick is zero; the election timeout is ElectionTicks
	// ticks.
	TickDefault = 100 * time.Millisecond
	// TickMin and TickMax are the range of Config.Tick.
	TickMin = time.Millisecond
	// TickMax keeps the election timeout within etcd's limit of 50 s.
	TickMax = 5 * time.Second
	// ElectionTicks is the election timeout in ticks. No session is shorter than one and
	// a half election timeouts.
	ElectionTicks = 10
)

// Config configures the server. Its zero value is a server without a listener in a
// temporary folder.
type Config struct {
	// Dir is the folder for the data, created if it does not exist. Empty means a new
	// temporary folder that Close removes.
	Dir string

	// Socket lets other processes of this user connect with Dial or Find. It needs a
	// Dir that they know.
	Socket bool

	// Listener, if set, lets clients reach the server over connections, as Socket does;
	// not both. It is for tests, of users with a password: a login is as cheap as
	// possible.
	Listener net.Listener

	// Logger receives the messages of etcd; nil discards them. The ordinary messages of
	// every start and stop are at debug level, and so is all that etcd calls
	// information.
	Logger *slog.Logger

	// Fatal is called when etcd cannot continue because its disk is full or gone, and
	// must not return. The process must end, because etcd may have more in memory than
	// it will find on its disk. Nil panics.
	Fatal func(text string)

	// QuotaBytes is the size of the database at which writes are refused with
	// broker.ErrNoSpace. Zero means QuotaBytesDefault; the maximum is QuotaBytesMax.
	QuotaBytes int64

	// History is how long changes are kept for watches that start late. They are
	// compacted away after between one and two of it. Zero means HistoryDefault; the
	// minimum is one second.
	History time.Duration

	// Tick is the heartbeat interval. Zero means TickDefault; the range is TickMin to
	// TickMax. The shortest session is 15 ticks, rounded up to a second: 2 s by
	// default. It is for tests.
	Tick time.Duration

	// UnsafeNoFsync leaves writing to disk to the operating system. Acknowledged writes
	// are then lost in a crash of the machine. It is for tests.
	UnsafeNoFsync bool

	// Between, if set, is placed between each connection that Broker returns and the
	// server. It is for tests, to imitate the answers of another member.
	Between func(pb.KVClient, pb.LeaseClient) (pb.KVClient, pb.LeaseClient)
}

// String returns the configuration with its derived values.
func (c Config) String() string {
	c = c.withDefaults()
	return fmt.Sprintf("embedded etcd dir=%s socket=%t quota_bytes=%d history=%v tick=%v election_timeout=%v fsync=%t",
		cmp.Or(c.Dir, "temporary"), c.Socket, c.QuotaBytes, c.History, c.Tick, c.Tick*ElectionTicks, !c.UnsafeNoFsync)
}

// LogValue makes a structured logger print the result of String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults() Config {
	c.QuotaBytes = cmp.Or(c.QuotaBytes, QuotaBytesDefault)
	c.History = cmp.Or(c.History, HistoryDefault)
	c.Tick = cmp.Or(c.Tick, TickDefault)
	return c
}

// validate needs the defaults.
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
