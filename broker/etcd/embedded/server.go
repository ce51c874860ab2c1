package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"golang.org/x/crypto/bcrypt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/internal/zaplog"
)

// Server is a running etcd. Its methods are safe for concurrent use.
type Server struct {
	config Config
	dir    string
	lock   *lockFile
	etcd   *embed.Etcd
	// listener is nil if only this process can connect.
	listener *listener
	// temporary is a folder for the socket alone, empty if there is none.
	temporary string

	// stop makes the supervisor close everything; done is closed when it has.
	stop     context.CancelFunc
	stopping context.Context
	done     chan struct{}
	// err is set before done is closed.
	err error

	// mu guards brokers, which is nil once the server is closing.
	mu      sync.Mutex
	brokers map[*etcd.Broker]struct{}
}

// Start starts a server and returns when it is ready. The context limits the start
// only; the server runs until Close.
func Start(ctx context.Context, config Config) (*Server, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &Server{config: config, done: make(chan struct{}), brokers: map[*etcd.Broker]struct{}{}}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.shutdown())
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	go s.supervise()
	return s, nil
}

// start starts everything in order. After an error shutdown undoes it.
func (s *Server) start(ctx context.Context) error {
	if err := s.openFolder(); err != nil {
		return err
	}
	var err error
	if s.lock, err = acquireLock(s.dir); err != nil {
		return err
	}
	holder := Holder{PID: os.Getpid(), StartedAt: time.Now(), Version: version.Version}
	holder.Host, _ = os.Hostname() // empty if unknown
	// Others must not see an earlier holder meanwhile.
	if err := s.lock.write(holder); err != nil {
		return err
	}
	if s.config.Socket {
		if holder.Socket, s.temporary, err = socketPath(s.dir); err != nil {
			return err
		}
	}
	if err := s.startEtcd(ctx); err != nil {
		return err
	}
	switch {
	case holder.Socket != "":
		if s.listener, err = listen(holder.Socket, s.etcd); err != nil {
			return err
		}
	case s.config.Listener != nil:
		s.listener = serve("", s.config.Listener, s.etcd)
	}
	// The socket is written last, so that it already accepts connections.
	return s.lock.write(holder)
}

func (s *Server) openFolder() (err error) {
	if s.config.Dir != "" {
		s.dir, err = prepareFolder(s.config.Dir)
		return err
	}
	temporary, err := os.MkdirTemp("", "windlass-")
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	s.dir, err = checkedFolder(temporary)
	return err
}

// readyMax limits how long etcd takes to elect itself. It has read its data before, which may
// take long.
const readyMax = 30 * time.Second

func (s *Server) startEtcd(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("embedded etcd in %s: starting: %w", s.dir, err)
	}
	marked, err := prepareData(s.dir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := checkData(s.dir); err != nil {
		return fmt.Errorf("embedded etcd in %s: %w", s.dir, err)
	}
	setVariables()
	if s.etcd, err = embed.StartEtcd(s.etcdConfig()); err != nil {
		return fmt.Errorf("embedded etcd in %s: %w", s.dir, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyMax, fmt.Errorf("not ready within %v", readyMax))
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		return fmt.Errorf("embedded etcd in %s: %w", s.dir, err)
	case <-s.etcd.Server.StopNotify():
		return fmt.Errorf("embedded etcd in %s: it stopped while starting", s.dir)
	case <-ctx.Done():
		return fmt.Errorf("embedded etcd in %s: starting: %w", s.dir, context.Cause(ctx))
	}
	if marked {
		if err := removeMark(s.dir); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	return nil
}

// etcdConfig has no address to listen on. The advertised addresses are required to form a
// cluster of one member, and are never used.
func (s *Server) etcdConfig() *embed.Config {
	c := embed.NewConfig()
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.Name = "windlass"
	c.Dir = filepath.Join(s.dir, dataName)
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{nowhere}, []url.URL{nowhere}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = s.config.History.String()
	c.QuotaBackendBytes = s.config.QuotaBytes
	c.TickMs = uint(s.config.Tick / time.Millisecond)
	c.ElectionMs = c.TickMs * ElectionTicks
	c.UnsafeNoFsync = s.config.UnsafeNoFsync
	if s.config.Listener != nil {
		c.BcryptCost = uint(bcrypt.MinCost)
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zaplog.New(s.config.Logger, logLevel, s.config.Fatal))
	return c
}

// supervise waits until Close is called or etcd has stopped by itself, and closes
// everything.
func (s *Server) supervise() {
	var cause error
	select {
	case <-s.stopping.Done():
	case err := <-s.etcd.Err():
		cause = fmt.Errorf("the embedded etcd in %s has stopped: %w", s.dir, err)
	case <-s.etcd.Server.StopNotify():
		cause = fmt.Errorf("the embedded etcd in %s has stopped by itself", s.dir)
	}
	s.closeBrokers(cause)
	s.err = errors.Join(cause, s.shutdown())
	close(s.done)
}

// closeBrokers must be called before etcd is stopped: etcd waits for requests from
// connections, but not for calls from inside the process.
func (s *Server) closeBrokers(cause error) {
	s.mu.Lock()
	brokers := s.brokers
	s.brokers = nil
	s.mu.Unlock()
	for b := range brokers {
		_ = b.CloseCause(cause) // only closing a connection could fail, and there is none
	}
}

// shutdown undoes start, also if that failed.
func (s *Server) shutdown() error {
	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.close())
	}
	if s.etcd != nil {
		s.etcd.Close()
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	if s.temporary != "" {
		errs = append(errs, os.RemoveAll(s.temporary))
	}
	if s.config.Dir == "" && s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Broker returns a new connection that goes straight into the server. Closing it does
// not affect the server; closing the server closes it.
func (s *Server) Broker() *etcd.Broker {
	server := s.etcd.Server
	txns := adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(server))
	leases := adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(server))
	if s.config.Between != nil {
		txns, leases = s.config.Between(txns, leases)
	}
	var b *etcd.Broker
	b = etcd.New(v3client.New(server), etcd.Options{
		Address:    s.dir,
		Defragment: func() error { return server.Backend().Defrag() },
		Txns:       txns,
		Watches:    adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(server)),
		Leases:     leases,
		OnClose: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.brokers, b)
		},
	})
	s.mu.Lock()
	open := s.brokers != nil
	if open {
		s.brokers[b] = struct{}{}
	}
	s.mu.Unlock()
	if !open {
		_ = b.Close() // as in closeBrokers
	}
	return b
}

// Dir returns the real path of the data folder.
func (s *Server) Dir() string { return s.dir }

// Socket returns the path of the socket, empty if there is none.
func (s *Server) Socket() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.path
}

// Compact forgets the history before a revision, for tests and maintenance.
func (s *Server) Compact(ctx context.Context, revision broker.Revision) error {
	b := s.Broker()
	defer b.Close() // as in closeBrokers
	return b.Compact(ctx, revision)
}

// Done returns a channel that is closed when the server has stopped, by Close or by
// itself, and has freed all that it held.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns, once Done is closed, why the server stopped by itself or what failed in
// closing it.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close stops the server and waits until it has stopped. It closes the server's brokers
// and removes a temporary folder. Closing twice is no error.
func (s *Server) Close() error {
	s.stop()
	<-s.done
	return s.err
}
