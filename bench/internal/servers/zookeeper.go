package servers

import (
	"path/filepath"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// MissingZooKeeper says what has to be installed, nothing if all is there.
func MissingZooKeeper() string { return zktest.Missing() }

// ZooKeeperVersion is that of the installed server, empty if its package does not
// tell: it has a link to the server with the version in its name.
func ZooKeeperVersion() string {
	links, _ := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar") // the pattern is a good one
	if len(links) == 0 {
		return ""
	}
	return number.FindString(filepath.Base(links[0]))
}

// ZooKeeper is a running server.
type ZooKeeper struct{ server *zktest.Server }

// StartZooKeeper runs a server with its data in a folder. It answers when what it
// was told is on disk, as it does by default.
func StartZooKeeper(dir string) (*ZooKeeper, error) {
	server, err := zktest.New(dir, zktest.Options{Tick: time.Second, Settings: []string{"forceSync=yes"}})
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{server: server}, nil
}

// Address is "host:port" of the server.
func (z *ZooKeeper) Address() string { return z.server.Address() }

// Close ends the server.
func (z *ZooKeeper) Close() error {
	z.server.Kill()
	return nil
}
