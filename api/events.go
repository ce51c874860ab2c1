package api

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
)

// eventsInput says what a viewer wants.
type eventsInput struct {
	Kinds       []string `query:"kind,explode" doc:"only these: task, node, election; repeatable"`
	LastEventID string   `header:"Last-Event-ID" doc:"the ID of the last event that was seen, from which to resume"`
}

// stream is an answer that goes on.
type stream struct{ Body func(huma.Context) }

func (s *Server) registerEvents() {
	add(s, endpoint{ID: "events", Method: http.MethodGet, Path: "/v1/events", Tag: "events", Stream: true, Media: "text/event-stream",
		Summary: "Follow tasks, nodes and elections",
		Description: "Server-sent events. An event \"task\", \"node\" or \"election\" has what a list has, or {\"id\" or \"name\":…, \"gone\":true}. " +
			"An event \"list\" says that what happened before is not told: list now, and apply what comes after. It is the first one, unless " +
			"Last-Event-ID names an event that this server still knows; then those since then follow. An event \"trouble\" says that the broker " +
			"cannot be followed for now. An ID begins with the revision of the store. Who does not read is cut off, and can resume. " +
			"The same change may be told twice.",
	}, false, s.watch)
}

// viewKinds are what a viewer can ask for.
var viewKinds = []string{kindTask, kindNode, kindElection}

func (s *Server) watch(ctx context.Context, in *eventsInput) (*stream, error) {
	kinds := map[string]bool{}
	for _, kind := range in.Kinds {
		if !slices.Contains(viewKinds, kind) {
			return nil, badInput("kind", shown(kind), "must be one of "+strings.Join(viewKinds, ", "))
		}
		kinds[kind] = true
	}
	caller, _ := ctx.Value(callerKey{}).(Caller)
	v, missed, p := s.hub.enter(in.LastEventID, kinds, caller)
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
	w.Header().Set("X-Accel-Buffering", "no") // proxies are not to collect events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	// write bounds how long the viewer may take to read something.
	write := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(s.config.Limits.WriteTimeout))
		_, err := io.WriteString(w, text)
		return err == nil && control.Flush() == nil
	}
	// Without a first byte the header is not sent either, and a viewer that has missed
	// nothing would not know until the first heartbeat that it is up to date.
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
			// A token that was taken out of the file ends its streams as well.
			if _, known := s.identify(r); !known || !write(comment) {
				return
			}
		}
	}
}

// comment carries no event; it only shows that the stream is alive.
const comment = ":\n\n"

// text is an event as it is sent. Its data is JSON on one line.
func (e event) text() string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", e.id, e.kind, e.data)
}

// publisher passes on the changes of one kind. It remembers a hash of what it last
// published of each object: whenever the broker is listed again, as happens now and
// then, a watch yields much that has not changed.
type publisher struct {
	server    *Server
	kind      string
	seed      maphash.Seed
	published map[string]uint64
}

func (s *Server) publisher(kind string) *publisher {
	return &publisher{server: s, kind: kind, seed: maphash.MakeSeed(), published: map[string]uint64{}}
}

// publish passes on the current value of an object; nil means that it is gone.
func (t *publisher) publish(name string, revision int64, value any) {
	data, err := encode(value)
	if err != nil {
		t.server.config.Logger.Error("an event cannot be told", "kind", t.kind, "name", name, "error", err)
		return
	}
	hash := maphash.Bytes(t.seed, data)
	if before, known := t.published[name]; known && before == hash {
		return
	}
	if t.published[name] = hash; value == nil {
		delete(t.published, name)
		field := "name"
		if t.kind == kindTask {
			field = "id"
		}
		if data, err = encode(map[string]any{field: name, "gone": true}); err != nil {
			return // a name and a bool
		}
	}
	t.server.hub.publish(t.kind, revision, data)
}

// trouble reports that the broker cannot be followed.
func (t *publisher) trouble(err error) {
	if data, problem := encode(map[string]string{"detail": err.Error()}); problem == nil {
		t.server.hub.publish(kindTrouble, 0, data)
	}
}

func (s *Server) followTasks(ctx context.Context) {
	t := s.publisher(kindTask)
	for change, err := range s.tasks.Watch(ctx) {
		switch {
		case err != nil:
			t.trouble(err)
		case change.Gone:
			t.publish(change.Task.ID, change.Revision, nil)
		default:
			t.publish(change.Task.ID, change.Revision, change.Task)
		}
	}
}

func (s *Server) followNodes(ctx context.Context) {
	t := s.publisher(kindNode)
	for change, err := range s.client.WatchNodes(ctx) {
		switch {
		case err != nil:
			t.trouble(err)
		case change.Gone:
			t.publish(change.Node.Name, change.Revision, nil)
		default:
			t.publish(change.Node.Name, change.Revision, change.Node)
		}
	}
}

func (s *Server) followElections(ctx context.Context) {
	t := s.publisher(kindElection)
	for change, err := range election.Watch(ctx, s.config.Broker, s.config.Namespace) {
		switch {
		case err != nil:
			t.trouble(err)
		case change.Gone:
			t.publish(change.Election.Name, change.Revision, nil)
		default:
			t.publish(change.Election.Name, change.Revision, view.ElectionOf(change.Election))
		}
	}
}
