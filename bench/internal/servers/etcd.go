package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/bench/internal/proc"
)

// EtcdRole is the argument with which this program is a member of an etcd.
const EtcdRole = "etcd-member"

// EtcdVersion is that of the server.
var EtcdVersion = version.Version

// member is what a member is told.
type member struct {
	Name    string `json:"name"`
	Dir     string `json:"dir"`
	Client  string `json:"client"`
	Peer    string `json:"peer"`
	Cluster string `json:"cluster"`
}

// Etcd is a running cluster.
type Etcd struct {
	// Endpoints are the addresses of its members, with their scheme.
	Endpoints []string
	members   []*proc.Child
}

// StartEtcd runs a cluster of one member or more below a folder, and returns when
// all of them are ready. Its settings are etcd's own, but for the history, which is
// compacted after five minutes, and the quota of 8 GiB. env is added to the environment
// of the members.
func StartEtcd(ctx context.Context, dir string, members int, env ...string) (e *Etcd, err error) {
	free, err := ports(2 * members)
	if err != nil {
		return nil, err
	}
	e = &Etcd{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	orders := make([]member, members)
	var cluster []string
	for i := range orders {
		name := fmt.Sprint("m", i)
		orders[i] = member{
			Name: name, Dir: filepath.Join(dir, name),
			Client: fmt.Sprintf("http://127.0.0.1:%d", free[2*i]), Peer: fmt.Sprintf("http://127.0.0.1:%d", free[2*i+1]),
		}
		cluster = append(cluster, name+"="+orders[i].Peer)
		e.Endpoints = append(e.Endpoints, orders[i].Client)
	}
	ready := make(chan struct{}, members)
	for i := range orders {
		orders[i].Cluster = strings.Join(cluster, ",")
		order, err := json.Marshal(orders[i])
		if err != nil {
			return e, err
		}
		cmd := proc.Self(EtcdRole, string(order))
		cmd.Env = append(os.Environ(), env...)
		child, err := proc.Start(cmd, func([]byte) { ready <- struct{}{} })
		if err != nil {
			return e, err
		}
		e.members = append(e.members, child)
	}
	for _, child := range e.members {
		select {
		case <-ready:
		case <-child.Done():
			return e, errors.New("a member of etcd ended while it started")
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
	}
	return e, nil
}

// Pids are the processes of the members.
func (e *Etcd) Pids() (pids []int) {
	for _, child := range e.members {
		pids = append(pids, child.Pid())
	}
	return pids
}

// Requests is how many of clients the members have answered since they began, as they
// count them themselves. A stream is one, once it is over. Logins are those of them by
// which users show their passwords.
func (e *Etcd) Requests(ctx context.Context) (requests, logins int, err error) {
	for _, endpoint := range e.Endpoints {
		all, by, err := answered(ctx, endpoint)
		if err != nil {
			return 0, 0, fmt.Errorf("requests of %s: %w", endpoint, err)
		}
		requests, logins = requests+all, logins+by
	}
	return requests, logins, nil
}

func answered(ctx context.Context, endpoint string) (requests, logins int, err error) {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	told, err := http.DefaultClient.Do(asked)
	if err != nil {
		return 0, 0, err
	}
	defer told.Body.Close()
	const counter = "grpc_server_handled_total"
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(told.Body)
	if err != nil {
		return 0, 0, err
	}
	if families[counter] == nil {
		return 0, 0, fmt.Errorf("no counter %s", counter)
	}
	for _, m := range families[counter].GetMetric() {
		n := int(m.GetCounter().GetValue())
		requests += n
		for _, l := range m.GetLabel() {
			if l.GetName() == "grpc_method" && l.GetValue() == "Authenticate" {
				logins += n
			}
		}
	}
	return requests, logins, nil
}

// Close ends the members.
func (e *Etcd) Close() error {
	var errs []error
	for _, child := range e.members {
		errs = append(errs, child.Close())
	}
	return errors.Join(errs...)
}

// Settings of a member that are not etcd's own.
const (
	history    = 5 * time.Minute
	quotaBytes = 8 << 30
)

// RunEtcdMember is the body of a member: it runs until in ends.
func RunEtcdMember(in io.Reader, out io.Writer, order string) error {
	var m member
	if err := json.Unmarshal([]byte(order), &m); err != nil {
		return fmt.Errorf("which member: %w", err)
	}
	c, err := m.config()
	if err != nil {
		return err
	}
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
	for lines := bufio.NewScanner(in); lines.Scan(); {
		continue // nothing is said to it but that it is over
	}
	return nil
}

func (m member) config() (*embed.Config, error) {
	client, err := url.Parse(m.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = m.Name, m.Dir, m.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, history.String()
	c.QuotaBackendBytes = quotaBytes
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return c, nil
}
