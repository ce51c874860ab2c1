package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// received is an event as a viewer reads it.
type received struct{ id, kind, data string }

// reader reads the events of one stream.
type reader struct {
	*testing.T
	lines *bufio.Scanner
	body  io.Closer
}

// view opens a stream over the network.
func (b *bench) view(address, query, after string) *reader {
	b.Helper()
	return b.viewBy(&http.Transport{}, address, query, after)
}

// viewBy opens a stream with a transport.
func (b *bench) viewBy(transport *http.Transport, address, query, after string) *reader {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	b.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+b.config.Prefix+"/v1/events"+query, nil)
	must(b, err)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	b.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(r)
	must(b, err)
	b.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		b.Fatalf("%d %q", response.StatusCode, response.Header.Get("Content-Type"))
	}
	return &reader{T: b.T, lines: bufio.NewScanner(response.Body), body: response.Body}
}

// next reads one event, without comments.
func (r *reader) next() (e received, open bool) {
	r.Helper()
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e != (received{}) {
				return e, true
			}
		}
	}
	return e, false
}

// until reads up to the next event of a kind with a text in its data.
func (r *reader) until(kind, text string) received {
	r.Helper()
	for {
		e, open := r.next()
		if !open {
			r.Fatalf("the stream ended before a %s with %s", kind, text)
		}
		if e.kind == kind && strings.Contains(e.data, text) {
			return e
		}
	}
}

func TestEvents_AHundredViewersAreNoMoreLoadOnTheBrokerThanOne(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.ViewersMax = 300 })
	address := b.listen()
	first := b.view(address, "", "")
	b.submit(windlass.Submission{ID: "begin"})
	first.until("task", "begin")
	b.eventually("nodes and elections are followed", func() bool { return b.broker.watches.Load() == 6 })
	calls, watches := b.broker.calls.Load(), b.broker.watches.Load()

	viewers := make([]*reader, 100)
	for i := range viewers {
		viewers[i] = b.view(address, "?kind=task", "")
		if e, _ := viewers[i].next(); e.kind != kindList {
			t.Fatalf("the first event is %+v", e)
		}
	}
	const changes = 20
	for i := range changes {
		b.submit(windlass.Submission{ID: fmt.Sprintf("t%02d", i)})
	}
	var reading sync.WaitGroup
	for _, v := range viewers {
		reading.Go(func() {
			for i := range changes {
				if e, _ := v.next(); !strings.Contains(e.data, fmt.Sprintf(`"id":"t%02d"`, i)) {
					t.Errorf("event %d is %+v", i, e)
					return
				}
			}
		})
	}
	reading.Wait()
	if c, w := b.broker.calls.Load(), b.broker.watches.Load(); c != calls || w != watches {
		t.Errorf("100 viewers cost %d calls and %d watches", c-calls, w-watches)
	}
}

func TestEvents_ResumeAfterTheLastOneSeenOrSayToListAgain(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.EventsKeptMax, c.Prefix = 8, "/fleet" })
	address := b.listen()
	v := b.view(address, "", "")
	if e, _ := v.next(); e.kind != kindList || e.data != `{"reason":"start"}` {
		t.Fatalf("the first event is %+v", e)
	}
	b.eventually("everything is followed", func() bool { return b.broker.watches.Load() == 6 }) // the last listing has the revision of the first change
	b.submit(windlass.Submission{ID: "a"})
	seen := v.until("task", `"id":"a"`)
	var revision int64
	if _, err := fmt.Sscanf(seen.id, "%d.", &revision); err != nil || revision != int64(b.store.Revision()) {
		t.Errorf("the ID is %s at revision %d", seen.id, b.store.Revision())
	}
	v.body.Close()
	for _, id := range []string{"b", "c", "d"} {
		b.submit(windlass.Submission{ID: id})
	}
	passed := func(n int) func() bool {
		return func() bool {
			missed, known := b.since(seen.id)
			return known && len(missed) == n
		}
	}
	b.eventually("the tasks are passed on", passed(3))
	must(t, b.client.Delete(t.Context(), "b"))
	b.eventually("the deletion is passed on", passed(4))
	v = b.view(address, "", seen.id)
	var got []string
	for range 4 {
		e, _ := v.next()
		var data struct {
			ID   string
			Gone bool
		}
		if err := json.Unmarshal([]byte(e.data), &data); err != nil || e.kind != kindTask {
			t.Fatalf("%+v: %v", e, err)
		}
		got = append(got, fmt.Sprint(data.ID, data.Gone))
	}
	if fmt.Sprint(got) != "[bfalse cfalse dfalse btrue]" {
		t.Errorf("resumed with %q", got)
	}
	for i := range 20 {
		b.submit(windlass.Submission{ID: fmt.Sprint("more", i)})
	}
	var latest string
	b.eventually("all of them are passed on", func() bool {
		b.server.hub.mu.Lock()
		defer b.server.hub.mu.Unlock()
		latest = b.server.hub.id()
		return b.server.hub.last == 25
	})
	if missed, known := b.since(latest); !known || len(missed) > 0 {
		t.Errorf("after the latest event there is %v, %v", missed, known)
	}
	for _, id := range []string{seen.id, strings.Replace(latest, b.server.hub.server, "other", 1), strings.Replace(seen.id, ".", "", 1), "x", "1..2", seen.id + "99999", "-1.x.-1"} {
		if e, _ := b.view(address, "", id).next(); e.kind != kindList || e.data != `{"reason":"gap"}` {
			t.Errorf("after %q the first event is %+v", id, e)
		}
	}
}

func TestEvents_AViewerThatHasMissedNothingKnowsSoAtOnce(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.Heartbeat = time.Hour })
	address := b.listen()
	first, open := b.view(address, "", "").next()
	if !open {
		t.Fatal("the stream ended")
	}
	v := b.view(address, "", first.id)
	if !v.lines.Scan() || v.lines.Text() != ":" {
		t.Errorf("the stream begins with %q, %v", v.lines.Text(), v.lines.Err())
	}
}

// since returns what the hub would send to a viewer that reconnects.
func (b *bench) since(id string) ([]event, bool) {
	b.server.hub.mu.Lock()
	defer b.server.hub.mu.Unlock()
	return b.server.hub.since(id)
}

func TestEvents_IncludeNodesAndElections(t *testing.T) {
	b := newBench(t, nil)
	address := b.listen()
	nodes, elections := b.view(address, "?kind=node", ""), b.view(address, "?kind=election", "")
	b.withNode()
	nodes.until("node", `"name":"n1"`)
	elections.until("election", `"leader":"n1"`)
}

// of returns a new caller with a role.
func of(role Role) Caller { return Caller{Name: rand.Text(), Role: role} }

func TestHub_CallersWithRoleViewDoNotKeepOthersOut(t *testing.T) {
	h := newHub(Limits{ViewersMax: 4}.withDefaults())
	h.start()
	for i := range 4 {
		_, _, p := h.enter("", nil, of(RoleView))
		if got, want := p != nil, i == 3; got != want {
			t.Fatalf("viewer %d: %v", i, p)
		}
		if p != nil && (p.Code != "viewers" || p.Limit != "must be at most 3") {
			t.Errorf("it is refused with %+v", p)
		}
	}
	if _, _, p := h.enter("", nil, of(RoleOperate)); p != nil {
		t.Errorf("one who may do more is refused: %v", p)
	}
}

func TestHub_AViewerThatDoesNotReadIsCutOffAndOthersAreNot(t *testing.T) {
	h := newHub(Limits{ViewerEventsMax: 2, EventsKeptMax: 100, ViewersMax: 2}.withDefaults())
	if _, _, p := h.enter("", nil, of(RoleAdmin)); p == nil || p.Code != "no_events" {
		t.Errorf("it lets viewers in before it runs: %v", p)
	}
	if !h.start() || h.start() {
		t.Error("it does not start once")
	}
	slow, missed, p := h.enter("", nil, of(RoleAdmin))
	if p != nil || len(missed) != 1 {
		t.Fatal(p)
	}
	other, _, _ := h.enter("", map[string]bool{kindNode: true}, of(RoleAdmin))
	if _, _, p := h.enter("", nil, of(RoleAdmin)); p == nil || p.Code != "viewers" {
		t.Errorf("it lets in more than may: %v", p)
	}
	for i := range 5 {
		h.publish(kindTask, int64(i), fmt.Append(nil, i))
	}
	var last event
	n := 0
	for e := range slow.events { // which ends, as it was cut off
		last = e
		n++
	}
	if n != 2 {
		t.Errorf("it got %d events", n)
	}
	back, missed, p := h.enter(last.id, nil, of(RoleAdmin))
	if p != nil || len(missed) != 3 || string(missed[0].data) != "2" {
		t.Errorf("it resumes with %v, %v", missed, p)
	}
	h.leave(back)
	h.leave(slow) // which has left
	if len(other.events) != 0 {
		t.Error("a viewer gets what it did not ask for")
	}
	h.stop()
	if _, open := <-other.events; open {
		t.Error("a viewer stays when the hub stops")
	}
	h.start()
	if _, missed, _ := h.enter(last.id, nil, of(RoleAdmin)); len(missed) != 1 || missed[0].kind != kindList {
		t.Errorf("something is resumed over a stop: %v", missed)
	}
}

func TestRun_OnceAtATime(t *testing.T) {
	b := newBench(t, nil)
	b.want(503, "no_events", request("GET", "/v1/events", ""))
	b.run()
	if err := b.server.Run(t.Context()); err == nil {
		t.Error("it runs twice")
	}
}

// pipe is a response that is read while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func (p pipe) Header() http.Header { return p.header }
func (p pipe) WriteHeader(int)     {}
func (p pipe) FlushError() error   { return nil }

func TestEvents_AStreamHasHeartbeatsAndReportsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run()
		ctx, cancel := context.WithCancel(t.Context())
		read, write := io.Pipe()
		go func() {
			b.server.ServeHTTP(pipe{write, http.Header{}}, request("GET", "/v1/events", "").WithContext(ctx))
			write.Close()
		}()
		lines := bufio.NewScanner(read)
		for range 4 { // the list event
			lines.Scan()
		}
		began := time.Now()
		if lines.Scan(); lines.Text() != ":" || time.Since(began) != 15*time.Second {
			t.Errorf("after %v there is %q", time.Since(began), lines.Text())
		}
		away := broker.ErrUnavailable
		b.broker.failure.Store(&away)
		for lines.Scan() && lines.Text() != "event: trouble" { // once what is followed is listed anew
		}
		if lines.Scan(); !strings.Contains(lines.Text(), broker.ErrUnavailable.Error()) {
			t.Errorf("the trouble is %q", lines.Text())
		}
		cancel()
		for lines.Scan() {
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
	})
}
