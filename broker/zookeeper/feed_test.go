package zookeeper

import (
	"testing"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/clock"
)

// The first reply after a deletion by the server bounds when it happened; those that
// follow do not loosen it.
func TestFeed_ADeletionIsNoLaterThanTheNextReply(t *testing.T) {
	b := &Broker{start: clock.Boot()}
	b.slots.init()
	f := newFeed(b)
	f.begin(nil, 10)
	f.event(wire.Event{Type: wire.EventDeleted, Path: "/n/k"})
	for _, zxid := range []int64{13, 14, 50} {
		f.mark(zxid)
	}
	f.round(t.Context())
	if v := f.since(1); len(v.entries) != 1 || v.entries[0].revision != 13 || v.complete != 50 {
		t.Errorf("%+v", v)
	}
}
