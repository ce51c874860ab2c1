//go:build e2e && linux

package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// cluster is an etcd of one or three members, each a process of its own that
// listens on TCP.
type cluster struct {
	w       *world
	net     *network // nil on loopback
	members []*member
}

type member struct {
	config  memberConfig
	process *process // the last one
	frozen  bool
}

// clusterConfig is what can differ between clusters. The zero value is three
// members on loopback.
type clusterConfig struct {
	members    int
	net        *network
	quotaBytes int64
	ttl        time.Duration // of the nodes' sessions, if it is another
}

// startCluster starts the members and waits until they have a leader.
func startCluster(w *world, config clusterConfig) *cluster {
	w.t.Helper()
	if config.members == 0 {
		config.members = 3
	}
	c := &cluster{w: w, net: config.net}
	var peers []string
	for i := range config.members {
		name := memberName(i)
		client, peer := c.addresses(i)
		c.members = append(c.members, &member{config: memberConfig{
			Name: name, Dir: w.path(name), Client: client, Peer: peer, QuotaBytes: config.quotaBytes,
		}})
		peers = append(peers, name+"=http://"+peer)
	}
	for i, m := range c.members {
		m.config.Cluster = strings.Join(peers, ",")
		c.start(i)
	}
	c.waitLeader()
	return c
}

// addresses returns those of a member. In a network each member has its own.
func (c *cluster) addresses(i int) (client, peer string) {
	if c.net != nil {
		return fmt.Sprintf("%s:2379", c.net.at(memberName(i))), fmt.Sprintf("%s:2380", c.net.at(memberName(i)))
	}
	return freePort(c.w), freePort(c.w)
}

// freePort finds a loopback address that nobody uses at the moment.
func freePort(w *world) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	defer l.Close() // nobody has connected
	return l.Addr().String()
}

// address is what --broker takes.
func (c *cluster) address() string {
	return "etcd://" + strings.Join(c.endpoints(), ",")
}

func (c *cluster) endpoints() []string {
	var list []string
	for _, m := range c.members {
		list = append(list, m.config.Client)
	}
	return list
}

// start starts a member, or starts it again on its data.
func (c *cluster) start(i int) {
	c.w.t.Helper()
	m := c.members[i]
	config, err := json.Marshal(m.config)
	must(c.w.t, err)
	self, err := os.Executable()
	must(c.w.t, err)
	argv := []string{self}
	if c.net != nil {
		argv = on(c.net.space(m.config.Name), self)
	}
	m.process = c.w.launch(launch{
		name: brokerName, argv: argv, env: []string{memberEnv + "=" + string(config)}, output: c.w.path("out", m.config.Name),
	})
	m.frozen = false
}

func (c *cluster) kill(i int) time.Time {
	c.w.t.Helper()
	return c.w.kill(c.members[i].process)
}

func (c *cluster) freeze(i int) time.Time {
	c.w.t.Helper()
	c.members[i].frozen = true
	return c.w.signal(c.members[i].process, syscall.SIGSTOP)
}

func (c *cluster) thaw(i int) time.Time {
	c.w.t.Helper()
	c.members[i].frozen = false
	return c.w.signal(c.members[i].process, syscall.SIGCONT)
}

// leader returns the member that leads, -1 while those that should answer do
// not agree on one.
func (c *cluster) leader() int {
	leader := -1
	agreed := map[uint64]bool{}
	for i := range c.members {
		if !answers(c, i) {
			continue
		}
		status, err := c.status(i)
		if err != nil {
			return -1
		}
		agreed[status.Leader] = true
		if status.Leader == status.Header.MemberId {
			leader = i
		}
	}
	if len(agreed) != 1 {
		return -1
	}
	return leader
}

func (c *cluster) waitLeader() (leader int, at time.Time) {
	c.w.t.Helper()
	at = c.w.until(soon, "the members of the broker agree on a leader", func() bool {
		leader = c.leader()
		return leader >= 0
	})
	return leader, at
}

// statusLimit is more than a healthy member needs.
const statusLimit = time.Second

func (c *cluster) status(i int) (answer *pb.StatusResponse, err error) {
	err = c.ask(i, func(ctx context.Context, m pb.MaintenanceClient) error {
		answer, err = m.Status(ctx, &pb.StatusRequest{})
		return err
	})
	return answer, err
}

// moveLeader makes another member the leader.
func (c *cluster) moveLeader(from, to int) error {
	target, err := c.status(to)
	if err != nil {
		return err
	}
	return c.ask(from, func(ctx context.Context, m pb.MaintenanceClient) error {
		_, err := m.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: target.Header.MemberId})
		return err
	})
}

// ask makes one call to one member, over a connection of its own.
func (c *cluster) ask(i int, call func(context.Context, pb.MaintenanceClient) error) error {
	conn, err := grpc.NewClient(c.members[i].config.Client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() // it was asked one thing
	ctx, cancel := context.WithTimeout(context.Background(), statusLimit)
	defer cancel()
	return call(ctx, pb.NewMaintenanceClient(conn))
}

func (c *cluster) kind() string { return "etcd" }

func (c *cluster) size() int { return len(c.members) }

func (c *cluster) alive(i int) bool { return c.members[i].process.alive() }

func (c *cluster) frozen(i int) bool { return c.members[i].frozen }

func (c *cluster) output(i int) string { return c.w.path("out", c.members[i].config.Name) }

// follow watches with etcd's own client, so that the ledger depends on nothing of ours.
func (c *cluster) follow(ctx context.Context, prefix string) func(func([]put)) error {
	c.w.t.Helper()
	client := c.client()
	c.w.t.Cleanup(func() { must(c.w.t, client.Close()) })
	now, err := client.Get(ctx, prefix)
	must(c.w.t, err)
	changes := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	return func(book func([]put)) error {
		for batch := range changes {
			if err := batch.Err(); err != nil {
				return err
			}
			var puts []put
			for _, e := range batch.Events {
				if e.Type == clientv3.EventTypePut {
					puts = append(puts, put{string(e.Kv.Key), e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision})
				}
			}
			book(puts)
		}
		return errors.New("the watch has ended")
	}
}

func (c *cluster) left(ctx context.Context, prefix string) (left []string, err error) {
	client := c.client()
	defer client.Close() // only read
	keys, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range keys.Kvs {
		left = append(left, string(kv.Key))
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range leases.Leases {
		left = append(left, fmt.Sprintf("lease %x", l.ID))
	}
	return left, nil
}

// client connects the test itself, to all members.
func (c *cluster) client() *clientv3.Client {
	c.w.t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.endpoints(), Logger: zap.NewNop(), DialTimeout: soon,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	must(c.w.t, err)
	return client
}
