package elections

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
)

// dialed is a client that counts what it sends.
type dialed struct {
	*clientv3.Client
	// requests are those of transactions and reads, watches those to begin one.
	requests, watches atomic.Int64
	// cut tells that nothing it sends arrives any more.
	cut atomic.Bool
	mu  sync.Mutex
	// renewed is when the last renewal of each session was sent.
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
	if d.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	switch r := req.(type) {
	case *pb.TxnRequest:
		if id := renews(r); id != 0 {
			d.noteRenewal(id)
			break
		}
		d.requests.Add(1)
	case *pb.RangeRequest, *pb.PutRequest, *pb.DeleteRangeRequest:
		d.requests.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (d *dialed) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if d.cut.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s, err := open(ctx, desc, cc, method, opts...)
	return &counted{ClientStream: s, dialed: d}, err
}

// renews is the session that a transaction renews, zero if it is another one.
func renews(r *pb.TxnRequest) clientv3.LeaseID {
	if len(r.Success) != 1 {
		return 0
	}
	if put := r.Success[0].GetRequestPut(); put != nil && strings.HasSuffix(string(put.Key), "/pulse") {
		return clientv3.LeaseID(put.Lease)
	}
	return 0
}

func (d *dialed) noteRenewal(id clientv3.LeaseID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renewed[id] = time.Now()
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
		c.dialed.noteRenewal(clientv3.LeaseID(m.ID))
	}
	return c.ClientStream.SendMsg(m)
}
