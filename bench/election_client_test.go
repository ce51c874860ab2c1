package bench

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/windlass-go/windlass/broker/etcd"
)

// electionClient is a connection of candidates that counts its requests.
type electionClient struct {
	*clientv3.Client
	store *etcd.Broker
	// requests counts transactions and reads, without renewals.
	requests atomic.Int64
	// cut is true once its requests no longer arrive.
	cut atomic.Bool

	mu sync.Mutex
	// last is when the latest renewal of each session was sent.
	last map[clientv3.LeaseID]time.Time
}

func dialElection(endpoints []string) (*electionClient, error) {
	c := &electionClient{last: map[clientv3.LeaseID]time.Time{}}
	var err error
	c.Client, err = clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), // it would log every cancelled call
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(c.unary),
			grpc.WithChainStreamInterceptor(c.stream),
		},
	})
	if err != nil {
		return nil, err
	}
	c.store = etcd.New(c.Client, etcd.Options{})
	return c, nil
}

// count returns the number of keys below a prefix.
func (c *electionClient) count(ctx context.Context, prefix string) (int, error) {
	c.requests.Add(-1) // a request of the benchmark itself does not count
	r, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(r.Count), nil
}

func (c *electionClient) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	switch r := req.(type) {
	case *pb.TxnRequest:
		if id := renewedBy(r); id != 0 {
			c.noteRenewal(id)
			break
		}
		c.requests.Add(1)
	case *pb.RangeRequest, *pb.PutRequest, *pb.DeleteRangeRequest:
		c.requests.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// renewedBy returns the session that a transaction renews, zero for other transactions.
func renewedBy(r *pb.TxnRequest) clientv3.LeaseID {
	if len(r.Success) != 1 {
		return 0
	}
	if put := r.Success[0].GetRequestPut(); put != nil && strings.HasSuffix(string(put.Key), "/pulse") {
		return clientv3.LeaseID(put.Lease)
	}
	return 0
}

func (c *electionClient) noteRenewal(id clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[id] = time.Now()
}

// renewed returns when the latest renewal was sent. A renewal in flight when the client
// was cut off counts too, so this is final only in the end.
func (c *electionClient) renewed() (last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.last {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (c *electionClient) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s, err := open(ctx, desc, cc, method, opts...)
	return &electionStream{ClientStream: s, client: c}, err
}

// electionStream is a stream on which etcd's own client renews.
type electionStream struct {
	grpc.ClientStream
	client *electionClient
}

// SendMsg implements grpc.ClientStream.
func (s *electionStream) SendMsg(m any) error {
	if s.client.cut.Load() {
		return nil // it is lost, as on a network
	}
	if r, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.client.noteRenewal(clientv3.LeaseID(r.ID))
	}
	return s.ClientStream.SendMsg(m)
}
