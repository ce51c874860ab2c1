package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// lateServer is a member that takes longer than quietMax to confirm a watch, and then has an
// event for it. Like etcd it sends the event only after the confirmation, but first answers
// earlier progress requests.
type lateServer struct {
	pb.Watch_WatchClient
	ctx   context.Context
	ready chan *pb.WatchResponse
}

func (s *lateServer) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s.ctx = ctx
	return s, nil
}

func (s *lateServer) Send(r *pb.WatchRequest) error {
	if r.GetProgressRequest() != nil {
		s.ready <- &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 5}}
	}
	return nil
}

func (s *lateServer) Recv() (*pb.WatchResponse, error) {
	select {
	case r := <-s.ready:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func TestAWatchThatIsNotConfirmedYetIsNotAskedHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lateServer{ready: make(chan *pb.WatchResponse, asksMax)}
		b := New(clientv3.NewCtxClient(t.Context()), Options{Address: "late", Watches: s})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		confirm := time.AfterFunc(quietMax+askInterval/2, func() {
			s.ready <- &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 4}, Created: true}
			s.ready <- &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 5}, Events: []*mvccpb.Event{
				{Kv: &mvccpb.KeyValue{Key: []byte("/a/b"), CreateRevision: 5, ModRevision: 5}},
			}}
		})
		defer confirm.Stop()
		for batch, err := range b.Watch(ctx, "/a/", 3) {
			if err != nil || len(batch.Events) != 1 || batch.Revision != 5 {
				t.Errorf("first came %+v, %v", batch, err)
			}
			break
		}
	})
}
