package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcdRole is the role of a process that is a member of an etcd cluster.
const etcdRole = "etcd-member"

// etcdMember is the order for a member.
type etcdMember struct {
	Name    string  `json:"name"`
	Dir     string  `json:"dir"`
	Client  url.URL `json:"client"`
	Peer    url.URL `json:"peer"`
	Cluster string  `json:"cluster"`
}

// etcdCluster is an etcd that writes to disk, each member in a process of its own.
type etcdCluster struct {
	endpoints []string // addresses of the members, with their scheme
	members   []*child
}

// startEtcd runs an etcd cluster, and returns when all of its members are ready. env is
// added to the environment of the members.
func startEtcd(tb testing.TB, members int, env ...string) *etcdCluster {
	tb.Helper()
	free, dir := ports(tb, 2*members), tb.TempDir()
	local := func(port int) url.URL { return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)} }
	orders := make([]etcdMember, members)
	var cluster []string
	for i := range orders {
		name := fmt.Sprint("m", i)
		orders[i] = etcdMember{Name: name, Dir: filepath.Join(dir, name), Client: local(free[2*i]), Peer: local(free[2*i+1])}
		cluster = append(cluster, name+"="+orders[i].Peer.String())
	}
	e := &etcdCluster{}
	ready := make(chan struct{}, members)
	for _, o := range orders {
		o.Cluster = strings.Join(cluster, ",")
		order, err := json.Marshal(o)
		must(tb, err)
		e.members = append(e.members, startChild(tb, self(etcdRole, string(order), env...), func([]byte) { ready <- struct{}{} }))
		e.endpoints = append(e.endpoints, o.Client.String())
	}
	for _, m := range e.members {
		select {
		case <-ready:
		case <-m.over:
			tb.Fatal("a member of etcd ended while it started", m.err)
		}
	}
	return e
}

func (e *etcdCluster) pids() (pids []int) {
	for _, m := range e.members {
		pids = append(pids, m.pid())
	}
	return pids
}

func (e *etcdCluster) close() error {
	var errs []error
	for _, m := range e.members {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// handled matches the method and the count in the lines of etcd's metrics that count
// answers.
var handled = regexp.MustCompile(`(?m)^grpc_server_handled_total\{.*grpc_method="(\w+)".*\} (\d+)$`)

// answered returns how many requests of clients the members have answered since they
// started, by their own count. A stream counts as one, once it is over. logins are the
// requests with passwords.
func (e *etcdCluster) answered(tb testing.TB) (requests, logins int) {
	tb.Helper()
	for _, endpoint := range e.endpoints {
		response, err := http.Get(endpoint + "/metrics")
		must(tb, err)
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		must(tb, err)
		for _, m := range handled.FindAllStringSubmatch(string(text), -1) {
			requests += number(m[2])
			if m[1] == "Authenticate" {
				logins += number(m[2])
			}
		}
	}
	return requests, logins
}

// Settings of a member that are not etcd's defaults.
const (
	etcdHistory    = 5 * time.Minute
	etcdQuotaBytes = 8 << 30
)

// runEtcdMember is the body of a member: it runs until in ends.
func runEtcdMember(_ context.Context, in io.Reader, out io.Writer, order string) error {
	var m etcdMember
	if err := json.Unmarshal([]byte(order), &m); err != nil {
		return fmt.Errorf("which member: %w", err)
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = m.Name, m.Dir, m.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.Client}, []url.URL{m.Client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{m.Peer}, []url.URL{m.Peer}
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, etcdHistory.String()
	c.QuotaBackendBytes = etcdQuotaBytes
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	case <-time.After(readyMax):
		return fmt.Errorf("etcd was not ready within %v", readyMax)
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in) // its end is the only message
	return err
}
