package drivertest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// TestMembers_AnEmbeddedServerIsOne asks it inside its process and over its socket.
func TestMembers_AnEmbeddedServerIsOne(t *testing.T) {
	config := fast()
	config.Dir, config.Socket, config.QuotaBytes = t.TempDir(), true, 32<<20
	s := startServer(t, config)
	for _, b := range []*etcd.Broker{s.Broker(), dial(t, s)} {
		members, err := b.Members(t.Context())
		if err != nil || len(members) != 1 {
			t.Fatalf("%+v, %v", members, err)
		}
		m := members[0]
		if m.Err != nil || m.ID == 0 || m.Name != "windlass" || !strings.HasPrefix(m.Version, "3.") || !m.Leader || m.Leaderless || m.Learner ||
			m.DBSize <= 0 || m.InUse <= 0 || m.Quota != 32<<20 || len(m.Alarms) > 0 || m.RaftIndex == 0 || m.Endpoint == "" {
			t.Errorf("%+v", m)
		}
	}
}

func dial(t *testing.T, s *embedded.Server) *etcd.Broker {
	t.Helper()
	b, err := embedded.Dial(t.Context(), s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, b.Close) })
	return b
}

func TestMembers_OfAClosedBrokerAreAnError(t *testing.T) {
	b := startServer(t, fast()).Broker()
	closing(t, b.Close)
	if _, err := b.Members(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := b.Reclaim(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// fill writes until the store is full. The store checks its size every 100 ms, in which a fast
// machine writes much more than fits.
func fill(t *testing.T, b broker.Broker, key func(i int) string) {
	t.Helper()
	value := bytes.Repeat([]byte("x"), broker.ValueBytesMax)
	for i := range 4000 {
		_, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Put(key(i), value)}})
		if errors.Is(err, broker.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("2 GiB fit")
}

// TestReclaim_MakesAFullStoreTakeWritesAgain fills a store with versions of one key.
func TestReclaim_MakesAFullStoreTakeWritesAgain(t *testing.T) {
	config := fast()
	config.Dir, config.Socket, config.QuotaBytes = t.TempDir(), true, 18<<20
	s := startServer(t, config)
	for _, b := range []*etcd.Broker{s.Broker(), dial(t, s)} {
		fill(t, b, func(int) string { return "/a" })
		before, err := b.Members(t.Context())
		if err != nil || !slices.Contains(before[0].Alarms, etcd.AlarmNoSpace) {
			t.Fatalf("%+v, %v", before, err)
		}
		if err := b.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := b.Members(t.Context())
		if err != nil || len(after[0].Alarms) > 0 || after[0].DBSize >= before[0].DBSize/2 {
			t.Errorf("before %+v, after %+v, %v", before, after, err)
		}
		mustCommit(t, b, put("/b"))
	}
}

func TestReclaim_DoesNotDisarmWhatIsFullOfLiveData(t *testing.T) {
	config := fast()
	config.QuotaBytes = 18 << 20
	b := startServer(t, config).Broker()
	// The database's file is larger than its content, so there can be space after it was
	// rewritten.
	written, rounds := 0, 0
	var err error
	for ; err == nil && rounds < 20; rounds++ {
		fill(t, b, func(int) string { written++; return fmt.Sprintf("/a/%d", written) })
		err = b.Reclaim(t.Context())
	}
	if !errors.Is(err, broker.ErrNoSpace) {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
	members, err := b.Members(t.Context())
	if err != nil || !slices.Contains(members[0].Alarms, etcd.AlarmNoSpace) {
		t.Errorf("%+v, %v", members, err)
	}
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.DeleteTree("/a/")}})
	if err := b.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	mustCommit(t, b, put("/b"))
}

// A user's token must not be sent without TLS to a client address that a member gives.
func TestMembers_WhoeverIsReachedWithoutTLSIsNotAsked(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	})
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Certificate())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate.TLS.Certificates[0])))
	pb.RegisterClusterServer(server, twoMembers{second: "http://" + plain.Addr().String()})
	pb.RegisterMaintenanceServer(server, twoMembers{})
	accepting.Go(func() { _ = server.Serve(listener) })
	members, err := etcd.Members(t.Context(), etcd.Config{Endpoints: []string{listener.Addr().String()}, TLS: &tls.Config{RootCAs: roots}})
	server.Stop()
	closing(t, plain.Close)
	accepting.Wait()
	if err != nil || len(members) != 2 || members[0].Err != nil || members[1].Err == nil || !strings.Contains(members[1].Err.Error(), "without TLS") {
		t.Errorf("%+v, %v", members, err)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("it was reached %d times", n)
	}
}

// twoMembers is a member of a cluster with two members.
type twoMembers struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	second string
}

func (m twoMembers) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Members: []*pb.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b", ClientURLs: []string{m.second}}}}, nil
}

func (twoMembers) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: 1}, Leader: 1, Version: "3.7.3"}, nil
}
