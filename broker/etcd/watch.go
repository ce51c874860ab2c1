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

// After quietMax without a word the server is asked how far it is, and then
// again every askInterval: it does not answer while the watch is catching up.
// After asksMax questions without an answer the watch is given up, which is
// ProgressMax after the last word.
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
		if err := checkWatch(prefix, from); err != nil {
			yield(broker.Batch{}, err)
			return
		}
		w := watch{broker: b, prefix: prefix, next: int64(from), start: int64(from)}
		if err := w.run(ctx, yield); err != nil {
			yield(broker.Batch{}, err)
		}
	}
}

func checkWatch(prefix string, from broker.Revision) error {
	if from < 1 {
		return broker.NewError("watch", prefix, broker.ErrInvalid, fmt.Errorf("revision %d: a watch begins at 1 or later", from))
	}
	return broker.CheckWatched(prefix)
}

// watch is one iteration. It belongs to the goroutine that iterates.
type watch struct {
	broker *Broker
	prefix string
	// next is the first revision that has not been delivered. It only rises.
	next int64
	// start is the revision at which the stream in use began.
	start int64
	// stream is the one in use, nil until it is open.
	stream pb.Watch_WatchClient
	// created tells that the server has confirmed the stream in use. Before that
	// it is not asked: etcd holds back the events of an unconfirmed watch, but
	// not the answer, which would then claim that they were delivered.
	created bool
	// ahead tells that the stream began at a revision the store had not
	// reached. etcd keeps silent about the progress of such a watch until the
	// store gets there, however often it is asked.
	ahead bool
	// asks counts the questions since the last word.
	asks int
}

// run delivers until the caller has enough, when it returns nil, or until an
// error. When it returns, all that it started has ended.
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
				// Begin one revision earlier, which the store has reached:
				// there will be answers. What has been delivered is left out.
				r.close()
				w.start, w.stream, w.created = w.next-1, nil, false
				r = openReader(ctx, b.watches, w.prefix, w.start)
			} else if w.created {
				// An error of sending is one of receiving, too.
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

// isOver tells whether a context's deadline has passed, also where its timer has
// not fired yet. What the server is told of it is rounded to milliseconds.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= time.Millisecond
}

// failure is the error that ends the watch.
func (w *watch) failure(ctx context.Context, err error) error {
	if w.broker.life.Err() != nil {
		return w.broker.closedError("watch", w.prefix)
	}
	if ctx.Err() != nil {
		return broker.NewError("watch", w.prefix, broker.ErrUnavailable, ctx.Err())
	}
	if isDeadline(err) || status.Code(err) == codes.Canceled && isOver(ctx) {
		// The only deadline of a watch is its caller's, and the server, which
		// is told of it, may notice first and calls that either name.
		err = context.DeadlineExceeded
	}
	if w.broker.logins.refused(err) {
		return broker.NewError("watch", w.prefix, broker.ErrUnavailable, err) // the next one logs in
	}
	return w.broker.failure("watch", w.prefix, err)
}

// receive turns a message into a batch, or nil when there is nothing to deliver.
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
		// A member that lags behind what the caller has seen elsewhere may
		// report less than that; the watch is never less complete than before.
		done := max(m.response.Header.Revision, w.next-1)
		w.next = done + 1
		return &broker.Batch{Revision: broker.Revision(done)}, nil
	default:
		return w.events(m.response.Events), nil
	}
}

// events makes a batch. Its revision is that of the last event and not that of
// the response, up to which there may be more to come.
func (w *watch) events(events []*mvccpb.Event) *broker.Batch {
	// Leaving out what was delivered needs no search: events are in order.
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

// canceled is the error of a watch that the server ended, which says why in a
// text rather than in a status.
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
