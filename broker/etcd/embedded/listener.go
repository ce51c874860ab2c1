package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// listener serves only etcd's gRPC services, on a unix socket. etcd's own listener would also
// serve its HTTP gateway and metrics, would make the socket readable for all, and would wait
// 7 seconds for open watches when it closes.
type listener struct {
	// path is the path of the socket, empty for another listener.
	path    string
	server  *grpc.Server
	running sync.WaitGroup
	// err is the reason for which serving ended; it is set when running is done.
	err error
}

// pingIntervalMin is the limit of etcd's own listener.
const pingIntervalMin = 5 * time.Second

// listen serves on a socket that only this user can connect to. It removes a file that a
// killed process left: the lock of the data folder proves that nobody uses it.
func listen(path string, e *embed.Etcd) (*listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// Until then the folder keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return serve(path, l, e), nil
}

func serve(path string, l net.Listener, e *embed.Etcd) *listener {
	s := &listener{path: path, server: v3rpc.Server(e.Server, nil, nil,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingIntervalMin}))}
	s.running.Go(func() { s.err = s.server.Serve(l) })
	return s
}

// close ends all connections, removes the socket and waits.
func (s *listener) close() error {
	s.server.Stop()
	s.running.Wait()
	if errors.Is(s.err, grpc.ErrServerStopped) {
		return nil
	}
	return s.err
}
