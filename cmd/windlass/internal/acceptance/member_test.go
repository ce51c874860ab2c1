//go:build e2e && linux

package acceptance

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// memberEnv tells this binary to be an etcd member, and which.
const memberEnv = "WL_TEST_ETCD_MEMBER"

// memberConfig is what a member is told.
type memberConfig struct {
	Name    string
	Dir     string
	Client  string // host:port
	Peer    string // host:port
	Cluster string // name=URL of every member
	// QuotaBytes is the size at which writes are refused; zero is etcd's own.
	QuotaBytes int64
}

// runMember is the whole life of a member. It ends by a signal, as a crash
// would end it, or when etcd gives up.
func runMember() int {
	var config memberConfig
	if err := json.Unmarshal([]byte(os.Getenv(memberEnv)), &config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = config.Name, config.Dir, config.Cluster
	client, peer := url.URL{Scheme: "http", Host: config.Client}, url.URL{Scheme: "http", Host: config.Peer}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.TickMs, c.ElectionMs = 100, 1000 // etcd's own, which Windlass is made for
	c.QuotaBackendBytes = config.QuotaBytes
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
	// What a killed process has written stays in the page cache; only machines
	// that crash would need more, and the disk is shared with other tests.
	c.UnsafeNoFsync = true
	wal.SegmentSizeBytes = 8 << 20
	c.LogLevel, c.LogOutputs = "error", []string{"stderr"}
	member, err := embed.StartEtcd(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {
	case err = <-member.Err():
		fmt.Fprintln(os.Stderr, err)
	case <-member.Server.StopNotify():
		fmt.Fprintln(os.Stderr, "etcd has stopped by itself")
	}
	return 1
}
