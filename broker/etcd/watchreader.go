package etcd

import (
	"context"
	"math"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// message is what a reader delivers: first the stream when it is open, then its responses,
// then an error. Exactly one field is set.
type message struct {
	stream   pb.Watch_WatchClient
	response *pb.WatchResponse
	err      error
}

// reader reads one watch stream. It does not read on before its last message was received, so
// that a slow caller slows down the server and nothing accumulates here.
type reader struct {
	messages chan message
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// openReader starts reading the changes below prefix, or of one key. It ends with close.
func openReader(ctx context.Context, watches pb.WatchClient, prefix string, from int64) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{messages: make(chan message), cancel: cancel}
	r.running.Go(func() {
		if err := r.read(ctx, watches, prefix, from); err != nil {
			r.deliver(ctx, message{err: err})
		}
	})
	return r
}

// close ends the stream and waits until the reader has ended.
func (r *reader) close() {
	r.cancel()
	r.running.Wait()
}

func (r *reader) read(ctx context.Context, watches pb.WatchClient, prefix string, from int64) error {
	stream, err := watches.Watch(forStream(clientv3.WithRequireLeader(ctx)), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return err
	}
	what := &pb.WatchCreateRequest{Key: []byte(prefix), StartRevision: from}
	if strings.HasSuffix(prefix, "/") {
		what.RangeEnd = []byte(clientv3.GetPrefixRangeEnd(prefix))
	}
	create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: what}}
	// If sending fails, receiving returns the reason.
	if stream.Send(create) == nil && !r.deliver(ctx, message{stream: stream}) {
		return nil
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if !r.deliver(ctx, message{response: response}) {
			return nil
		}
	}
}

// deliver returns false if the reader was closed.
func (r *reader) deliver(ctx context.Context, m message) bool {
	select {
	case r.messages <- m:
		return true
	case <-ctx.Done():
		return false
	}
}
