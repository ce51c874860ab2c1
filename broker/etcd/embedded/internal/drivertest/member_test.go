//go:build e2e

package drivertest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberEnv makes this binary an etcd member; its value is a memberConfig.
const memberEnv = "WINDLASS_TEST_ETCD_MEMBER"

// init makes this binary a member if a test has started it as one.
func init() {
	if os.Getenv(memberEnv) != "" {
		os.Exit(runMember())
	}
}

type memberConfig struct {
	Name    string
	Dir     string
	Client  string
	Peer    string
	Cluster string
}

// runMember runs an etcd member until its standard input ends, at the latest when the tests
// end.
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
	c.TickMs, c.ElectionMs = 20, 200
	c.UnsafeNoFsync = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	member, err := embed.StartEtcd(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer member.Close()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
