package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// After quietMax without a message, the client asks the server for the progress, and again
// every askInterval: the server does not answer while the watch is catching up. After asksMax
// requests without an answer the watch fails, which is ProgressMax after the last message.
const (
	quietMax    = broker.ProgressMax / 2
	askInterval = broker.ProgressMax / 10
	asksMax     = 5
)

var (
	errSilent = fmt.Errorf("%w: no answer for %v", broker.ErrSilent, broker.ProgressMax)
	errEnded  = errors.New("the server ended the watch")
)

// Watch implements broker.Broker.
func (b *Broker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		if err := broker.CheckWatch(prefix, from); err != nil {
			yield(broker.Batch{}, err)
			return
		}
		w := watch{broker: b, prefix: prefix, next: int64(from), start: int64(from)}
		if err := w.run(ctx, yield); err != nil {
			yield(broker.Batch{}, err)
		}
	}
}

// watch is one iteration. It belongs to the goroutine that iterates.
type watch struct {
	broker *Broker
	prefix string
	// next is the first revision that has not been delivered. It never falls.
	next int64
	// start is the revision at which the stream in use began.
	start int64
	// stream is the one in use, nil until it is open.
	stream pb.Watch_WatchClient
	// created is set once the server has confirmed the stream in use. Before that it must
	// not be asked for the progress: etcd holds back the events of an unconfirmed watch,
	// but not its answer, which would then claim that they were delivered.
	created bool
	// ahead is set if the stream began at a revision that the store had not reached. etcd
	// does not report the progress of such a watch until the store reaches it.
	ahead bool
	// asks counts the progress requests since the last message.
	asks int
}

// run delivers until the caller stops, and then returns nil, or until an error. When it
// returns, everything that it started has ended.
func (w *watch) run(ctx context.Context, yield func(broker.Batch, error) bool) error {
	b := w.broker
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(context.Cause(b.life)) })()
	r := openReader(ctx, b.watches, w.prefix, w.start)
	defer func() { r.close() }()
	quiet := time.NewTimer(quietMax)
	defer quiet.Stop()
	for {
		select {
		case m := <-r.messages:
			batch, err := w.receive(m)
			if err != nil {
				return w.failure(ctx, err)
			}
			if batch == nil {
				continue
			}
			if !yield(*batch, nil) {
				return nil
			}
			w.asks = 0
			quiet.Reset(quietMax)
		case <-quiet.C:
			if w.asks++; w.asks > asksMax {
				return w.failure(ctx, errSilent)
			}
			if w.ahead && w.start == w.next {
				// Begin one revision earlier, which the store has reached, so that
				// the server answers. Delivered changes are left out.
				r.close()
				w.start, w.stream, w.created = w.next-1, nil, false
				r = openReader(ctx, b.watches, w.prefix, w.start)
			} else if w.created {
				// If sending fails, receiving does, too.
				_ = w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
					ProgressRequest: &pb.WatchProgressRequest{},
				}})
			}
			quiet.Reset(askInterval)
		case <-ctx.Done():
			return w.failure(ctx, ctx.Err())
		}
	}
}

// isOver reports whether a context's deadline has passed, even if its timer has not fired
// yet. The deadline that the server gets is rounded to milliseconds.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= time.Millisecond
}

// failure returns the error that ends the watch.
func (w *watch) failure(ctx context.Context, err error) error {
	if w.broker.life.Err() != nil {
		return w.broker.closedError("watch", w.prefix)
	}
	if ctx.Err() != nil {
		return broker.NewError("watch", w.prefix, broker.ErrUnavailable, ctx.Err())
	}
	if isDeadline(err) || status.Code(err) == codes.Canceled && isOver(ctx) {
		// A watch has only its caller's deadline. The server knows it and may notice first,
		// with either code.
		err = context.DeadlineExceeded
	}
	if w.broker.logins.refused(err) {
		return broker.NewError("watch", w.prefix, broker.ErrUnavailable, err) // the next one logs in
	}
	return w.broker.failure("watch", w.prefix, err)
}

// receive converts a message to a batch, nil if there is nothing to deliver.
func (w *watch) receive(m message) (*broker.Batch, error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case m.stream != nil:
		w.stream = m.stream
		return nil, nil
	case m.response.Canceled:
		return nil, canceled(m.response)
	case m.response.Header == nil, slices.ContainsFunc(m.response.Events, func(e *mvccpb.Event) bool { return e.GetKv() == nil }):
		return nil, errMisfit
	case m.response.Created:
		w.created, w.ahead = true, m.response.Header.Revision < w.start
		return nil, nil
	case len(m.response.Events) == 0:
		// A member that lags may report less than the caller has seen elsewhere.
		done := max(m.response.Header.Revision, w.next-1)
		w.next = done + 1
		return &broker.Batch{Revision: broker.Revision(done)}, nil
	default:
		return w.events(m.response.Events), nil
	}
}

// events returns a batch. Its revision is that of the last event and not that of the
// response, up to which more events may follow.
func (w *watch) events(events []*mvccpb.Event) *broker.Batch {
	// Events are in order, so those that were delivered come first.
	for len(events) > 0 && events[0].Kv.ModRevision < w.next {
		events = events[1:]
	}
	if len(events) == 0 {
		return nil
	}
	w.ahead = false
	last := events[len(events)-1].Kv.ModRevision
	w.next = last + 1
	batch := &broker.Batch{Events: make([]broker.Event, len(events)), Revision: broker.Revision(last)}
	for i, event := range events {
		batch.Events[i] = toEvent(event)
	}
	return batch
}

func toEvent(event *mvccpb.Event) broker.Event {
	if event.Type == mvccpb.Event_DELETE {
		return broker.Event{Deleted: true, KV: broker.KV{
			Key:      string(event.Kv.Key),
			Modified: broker.Revision(event.Kv.ModRevision),
		}}
	}
	return broker.Event{KV: toKV(event.Kv)}
}

// canceled returns the error of a watch that the server ended. The reason is a text and not
// a status.
func canceled(response *pb.WatchResponse) error {
	if response.CompactRevision != 0 {
		return fmt.Errorf("the history before revision %d is gone: %w", response.CompactRevision, rpctypes.ErrCompacted)
	}
	reason := response.CancelReason
	if _, text, found := strings.Cut(reason, "desc = "); found {
		reason = text
	}
	if reason == "" {
		return errEnded
	}
	return errors.New(reason)
}
