//go:build e2e

package drivertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/windlass-go/windlass/broker/etcd"
)

// patience limits what a healthy cluster does within a second or two.
const patience = 30 * time.Second

// cluster is three etcd members, each a process of its own.
type cluster struct {
	t       *testing.T
	members [3]*member
}

type member struct {
	config  memberConfig
	process *exec.Cmd
	// life is a pipe; the member ends when it is closed.
	life io.Closer
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := t.TempDir()
	ports := freePorts(t, 6)
	var peers []string
	for i := range c.members {
		name := fmt.Sprintf("m%d", i)
		c.members[i] = &member{config: memberConfig{
			Name: name, Dir: filepath.Join(dir, name), Client: ports[i], Peer: ports[3+i],
		}}
		peers = append(peers, name+"=http://"+ports[3+i])
	}
	for i, m := range c.members {
		m.config.Cluster = strings.Join(peers, ",")
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.members {
			c.kill(i)
		}
	})
	return c
}

// freePorts returns loopback addresses that nobody uses.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // only once all are found, so that they differ
		addresses[i] = l.Addr().String()
	}
	return addresses
}

func (c *cluster) start(i int) {
	c.t.Helper()
	m := c.members[i]
	config, err := json.Marshal(m.config)
	if err != nil {
		c.t.Fatal(err)
	}
	m.process = exec.Command(os.Args[0])
	m.process.Env = append(os.Environ(), memberEnv+"="+string(config))
	m.process.Stderr = os.Stderr
	if m.life, err = m.process.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := m.process.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends a member as a crash would.
func (c *cluster) kill(i int) {
	m := c.members[i]
	if m.process == nil {
		return
	}
	if err := m.process.Process.Kill(); err != nil {
		c.t.Error(err)
	}
	_ = m.process.Wait()
	m.process = nil
}

// leader returns the member that leads, and one that does not. It waits until
// all running members agree.
func (c *cluster) leader(ctx context.Context) (leader, follower int) {
	c.t.Helper()
	for {
		leader, follower = -1, -1
		agreed := map[uint64]bool{}
		for i, m := range c.members {
			if m.process == nil {
				continue
			}
			answer, err := c.status(ctx, m)
			if err != nil {
				c.t.Fatalf("member %d: %v", i, err)
			}
			agreed[answer.Leader] = true
			if answer.Leader == answer.Header.MemberId {
				leader = i
			} else {
				follower = i
			}
		}
		if len(agreed) == 1 && leader >= 0 {
			return leader, follower
		}
	}
}

// status waits until the member answers.
func (c *cluster) status(ctx context.Context, m *member) (*pb.StatusResponse, error) {
	conn, err := grpc.NewClient(m.config.Client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
}

// open connects to all members.
func (c *cluster) open(t *testing.T) *etcd.Broker {
	t.Helper()
	var endpoints []string
	for _, m := range c.members {
		endpoints = append(endpoints, m.config.Client)
	}
	return openAt(t, endpoints)
}

func openAt(t *testing.T, endpoints []string) *etcd.Broker {
	t.Helper()
	// A request that was forwarded to a leader that dies gets no answer, so the timeout is
	// short.
	b, err := etcd.Open(t.Context(), etcd.Config{Endpoints: endpoints, DialTimeout: patience, RequestTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, b.Close) })
	return b
}
