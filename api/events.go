package api

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
)

type eventsInput struct {
	Kinds       []string `query:"kind,explode" doc:"only these: task, node, election; repeatable"`
	LastEventID string   `header:"Last-Event-ID" doc:"ID of the last event seen, after which to resume"`
}

// stream is an answer that its function writes.
type stream struct{ Body func(huma.Context) }

func (s *Server) registerEvents() {
	add(s, endpoint{ID: "events", Method: http.MethodGet, Path: "/v1/events", Tag: "events", Stream: true, Media: "text/event-stream",
		Summary: "Follow tasks, nodes and elections",
		Description: "Server-sent events. An event \"task\", \"node\" or \"election\" has the object as in a list, or {\"id\" or \"name\":…, \"gone\":true}. " +
			"An event \"list\" means that earlier events are not sent: list now, and apply the events that follow. It is the first event, unless " +
			"Last-Event-ID is that of an event that this server still knows; then the events after that follow. An event \"trouble\" means that the " +
			"broker cannot be followed at present. An ID begins with the revision of the store. A viewer that reads too slowly is cut off, and can " +
			"resume. The same change may be sent twice. Of a task that waits, and still does when one of its needs ends, an event tells at most once a second.",
	}, s.watch)
}

// viewKinds are the kinds that a viewer can select.
var viewKinds = []string{kindTask, kindNode, kindElection}

func (s *Server) watch(ctx context.Context, in *eventsInput) (*stream, error) {
	kinds := map[string]bool{}
	for _, kind := range in.Kinds {
		if !slices.Contains(viewKinds, kind) {
			return nil, badInput("kind", shown(kind), "must be one of "+strings.Join(viewKinds, ", "))
		}
		kinds[kind] = true
	}
	v, missed, p := s.hub.enter(in.LastEventID, kinds, stateOf(ctx).caller)
	if p != nil {
		return nil, p
	}
	return &stream{func(ctx huma.Context) {
		defer s.hub.leave(v)
		r, w := humago.Unwrap(ctx)
		s.stream(r, w, v, missed)
	}}, nil
}

// stream writes events until the viewer leaves, is cut off, or the server stops.
func (s *Server) stream(r *http.Request, w http.ResponseWriter, v *viewer, missed []event) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // so that proxies do not hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	write := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(s.config.Limits.WriteTimeout))
		_, err := io.WriteString(w, text)
		return err == nil && control.Flush() == nil
	}
	// The header is sent with the first byte: without it, a viewer that has missed nothing
	// would not know so until the first heartbeat.
	if len(missed) == 0 && !write(comment) {
		return
	}
	for _, e := range missed {
		if !write(e.text()) {
			return
		}
	}
	heartbeat := time.NewTicker(s.config.Limits.Heartbeat)
	defer heartbeat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case e, open := <-v.events:
			if !open || !write(e.text()) {
				return
			}
		case <-heartbeat.C:
			// Streams end when their token is removed from the file.
			if _, known := s.identify(r); !known || !write(comment) {
				return
			}
		}
	}
}

// comment has no event; it shows that the stream is alive.
const comment = ":\n\n"

// text encodes an event. Its data is one line of JSON.
func (e event) text() string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.id, e.kind, e.data)
}

// publisher publishes the changes of one kind. It remembers a hash of the last value of
// each object, because a watch yields unchanged objects whenever it lists the broker again.
type publisher struct {
	server    *Server
	kind      string
	seed      maphash.Seed
	published map[string]uint64
}

func (s *Server) publisher(kind string) *publisher {
	return &publisher{server: s, kind: kind, seed: maphash.MakeSeed(), published: map[string]uint64{}}
}

// publish publishes the current value of an object, or that it is gone.
func (t *publisher) publish(name string, revision int64, gone bool, value any) {
	if gone {
		field := "name"
		if t.kind == kindTask {
			field = "id"
		}
		value = map[string]any{field: name, "gone": true}
	}
	data, err := encode(value)
	if err != nil {
		t.server.config.Logger.Error("an event cannot be encoded", "kind", t.kind, "name", name, "error", err)
		return
	}
	hash := maphash.Bytes(t.seed, data)
	if before, known := t.published[name]; known && before == hash {
		return
	}
	t.published[name] = hash
	if gone {
		delete(t.published, name)
	}
	t.server.hub.publish(t.kind, revision, data)
}

// trouble reports that the broker cannot be followed.
func (t *publisher) trouble(err error) {
	if data, problem := encode(map[string]string{"detail": err.Error()}); problem == nil {
		t.server.hub.publish(kindTrouble, 0, data)
	}
}

// follow publishes what happens until ctx is done, then stops the hub.
func (s *Server) follow(ctx context.Context) {
	defer s.hub.stop()
	var following sync.WaitGroup
	following.Go(func() {
		publishAll(s.publisher(kindTask), s.tasks.Watch(ctx), func(c windlass.TaskChange) (string, int64, bool, any) {
			s.charts.task(c)
			return c.Task.ID, c.Revision, c.Gone, c.Task
		})
	})
	following.Go(func() {
		publishAll(s.publisher(kindNode), s.client.WatchNodes(ctx), func(c windlass.NodeChange) (string, int64, bool, any) {
			s.charts.node(c)
			return c.Node.Name, c.Revision, c.Gone, c.Node
		})
	})
	following.Go(func() {
		publishAll(s.publisher(kindElection), election.Watch(ctx, s.config.Broker, s.config.Namespace), func(c election.LineChange) (string, int64, bool, any) {
			if c.Gone {
				return c.Election.Name, c.Revision, true, nil // it has no leader
			}
			return c.Election.Name, c.Revision, false, view.ElectionOf(c.Election)
		})
	})
	following.Go(func() { s.charts.run(ctx, s.tasks.Count) })
	following.Wait()
}

// publishAll publishes changes; parts returns the arguments of publish.
func publishAll[C any](t *publisher, changes iter.Seq2[C, error], parts func(C) (name string, revision int64, gone bool, value any)) {
	for change, err := range changes {
		if err != nil {
			t.trouble(err)
		} else {
			t.publish(parts(change))
		}
	}
}
