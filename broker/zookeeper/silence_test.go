package zookeeper

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// A session is silent if nothing was heard of it for its own TTL, from when it was first heard of to
// after what is known of it was read.
func TestSights_M14_ASessionIsSilentOnlyAfterItsOwnTTLWithoutAnEvent(t *testing.T) {
	const ttl = 5 * time.Second
	seen := &sights{of: map[string]heard{}}
	event := func(e wire.EventType, at time.Duration) { seen.take(wire.Event{Type: e, Path: "/s/a"}, at) }
	isDue := func(at time.Duration) bool { return len(seen.due(ttl, at)) > 0 }
	event(wire.EventCreated, 10*time.Second)
	seen.meet("/s/a", 12*time.Second) // a listing is older than it seems
	if isDue(15*time.Second-1) || !isDue(15*time.Second) {
		t.Error("it is not due a TTL after it was created")
	}
	event(wire.EventDataChanged, 14*time.Second)
	if isDue(19*time.Second-1) || !isDue(19*time.Second) {
		t.Error("it is not due a TTL after it was renewed")
	}
	was := seen.due(ttl, 19*time.Second)["/s/a"]
	if seen.learn("/s/a", was, 8*time.Second, 19*time.Second) || isDue(22*time.Second-1) || !isDue(22*time.Second) {
		t.Error("its own TTL, which is longer, does not count")
	}
	was = seen.due(ttl, 22*time.Second)["/s/a"]
	if event(wire.EventDataChanged, 22*time.Second); seen.learn("/s/a", was, 8*time.Second, 22*time.Second) {
		t.Error("it was renewed while it was being read, and is said to be silent")
	}
	was = seen.due(ttl, 30*time.Second)["/s/a"]
	if !seen.learn("/s/a", was, 8*time.Second, 30*time.Second) {
		t.Error("it is silent, and that is not said")
	}
	if event(wire.EventDeleted, 30*time.Second); isDue(time.Hour) || seen.learn("/s/a", was, 8*time.Second, time.Hour) {
		t.Error("it is gone, and is to be ended")
	}
	if seen.meet("/s/b", time.Hour); len(seen.due(ttl, time.Hour+ttl)) != 1 {
		t.Error("one that was there before the first event is not looked at")
	}
}

func TestSessionData_ReadsWhatItWrites(t *testing.T) {
	want := sessionData{timeout: 6668 * time.Millisecond, ttl: 5 * time.Second, password: []byte("0123456789abcdef")}
	got, ok := parseSessionData(want.encode())
	if !ok || got.timeout != want.timeout || got.ttl != want.ttl || string(got.password) != string(want.password) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, bad := range [][]byte{nil, {sessionDataVersion}, append([]byte{9}, want.encode()[1:]...)} {
		if d, ok := parseSessionData(bad); ok {
			t.Errorf("%v is read as %+v", bad, d)
		}
	}
}
