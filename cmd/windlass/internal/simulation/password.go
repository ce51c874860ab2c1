package simulation

import (
	"context"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

// The users of a store with access control. That of nodes and clients has the
// permissions for the namespace, root has all.
const (
	rootUser = "root"
	nodeUser = "node"
	// password of both.
	password = "secret"
)

// pipeBytes is the buffer of a connection within the process.
const pipeBytes = 64 << 10

// dial connects a client with a password to the current server.
func (s *stage) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, errAway
	}
	return listener.DialContext(ctx)
}

// dialed returns etcd's own client, which finds the server again by itself.
func (s *stage) dialed(user string) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints: []string{"the-server"}, Logger: zap.NewNop(), DialTimeout: patience,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(s.dial),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}, MinConnectTimeout: patience}),
		},
	}
	if user != "" {
		config.Username, config.Password = user, password
	}
	return clientv3.New(config)
}

// guard turns access control on.
func (s *stage) guard(ctx context.Context) error {
	client, err := s.dialed("")
	if err != nil {
		return err
	}
	defer client.Close() // nothing is under way
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, rootUser, password); return err },
		func() error { _, err := client.UserGrantRole(ctx, rootUser, rootUser); return err },
		func() error { _, err := client.UserAdd(ctx, nodeUser, password); return err },
		func() error { _, err := client.RoleAdd(ctx, nodeUser); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, nodeUser, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserGrantRole(ctx, nodeUser, nodeUser); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	s.admin, err = s.connect(rootUser)
	return err
}

// guarded is a connection with a password.
type guarded struct {
	*etcd.Broker
	stage *stage
}

func (s *stage) connect(user string) (guarded, error) {
	client, err := s.dialed(user)
	if err != nil {
		return guarded{}, err
	}
	return guarded{etcd.New(client, etcd.Options{}), s}, nil
}

// Commit implements broker.Broker.
func (g guarded) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	g.stage.within(txns)
	return g.Broker.Commit(ctx, txns...)
}

// endTokens sometimes ends the tokens of all logins of nodes and clients, as a change of
// their password does.
func (w *world) endTokens() {
	if !w.stage.guarded || w.besides.IntN(20) > 0 {
		return
	}
	client, err := w.stage.dialed(rootUser)
	if err != nil {
		return // the store is stopped
	}
	defer client.Close() // nothing is under way
	if _, err := client.UserChangePassword(w.t.Context(), nodeUser, password); err == nil {
		w.count("tokens of all logins ended")
	}
}
