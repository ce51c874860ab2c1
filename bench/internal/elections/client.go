package elections

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// dialed is a client that counts what it sends.
type dialed struct {
	*clientv3.Client
	// requests are those of transactions and reads, watches those to begin one.
	requests, watches atomic.Int64
	mu                sync.Mutex
	// renewed is when the last renewal of each lease was sent.
	renewed map[clientv3.LeaseID]time.Time
}

func dial(endpoints []string) (*dialed, error) {
	d := &dialed{renewed: map[clientv3.LeaseID]time.Time{}}
	var err error
	d.Client, err = clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), // it tells of every call that is cancelled
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(d.unary),
			grpc.WithChainStreamInterceptor(d.stream),
		},
	})
	return d, err
}

func (d *dialed) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch req.(type) {
	case *pb.TxnRequest, *pb.RangeRequest, *pb.PutRequest, *pb.DeleteRangeRequest:
		d.requests.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (d *dialed) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return &counted{ClientStream: s, dialed: d}, err
}

// sinceExpiry is how long ago the session expired that was cut off: a TTL after its
// latest renewal was sent. One that was on its way when it was cut off counts, too, so
// this is for when all is over.
func (d *dialed) sinceExpiry() time.Duration {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	var last time.Time
	for _, at := range d.renewed {
		if at.After(last) {
			last = at
		}
	}
	return now.Sub(last.Add(takeOverTTL))
}

// counted is a stream that counts what is sent on it.
type counted struct {
	grpc.ClientStream
	dialed *dialed
}

// SendMsg implements grpc.ClientStream.
func (c *counted) SendMsg(m any) error {
	switch m := m.(type) {
	case *pb.WatchRequest:
		if m.GetCreateRequest() != nil {
			c.dialed.watches.Add(1)
		}
	case *pb.LeaseKeepAliveRequest:
		c.dialed.mu.Lock()
		c.dialed.renewed[clientv3.LeaseID(m.ID)] = time.Now()
		c.dialed.mu.Unlock()
	}
	return c.ClientStream.SendMsg(m)
}
