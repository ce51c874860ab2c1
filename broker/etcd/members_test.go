package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// TestMembers_AnEmbeddedServerIsOne asks it from inside its process, and over
// its socket.
func TestMembers_AnEmbeddedServerIsOne(t *testing.T) {
	config := fast()
	config.Dir, config.Socket, config.QuotaBytes = t.TempDir(), true, 32<<20
	s := startServer(t, config)
	for _, b := range []*etcd.Broker{s.Broker(), dial(t, s)} {
		members, err := b.Members(t.Context())
		if err != nil || len(members) != 1 {
			t.Fatalf("%+v, %v", members, err)
		}
		m := members[0]
		if m.Err != nil || m.ID == 0 || m.Name != "windlass" || !strings.HasPrefix(m.Version, "3.") || !m.Leader || m.Leaderless || m.Learner ||
			m.DBSize <= 0 || m.InUse <= 0 || m.Quota != 32<<20 || len(m.Alarms) > 0 || m.RaftIndex == 0 || m.Endpoint == "" {
			t.Errorf("%+v", m)
		}
	}
}

func dial(t *testing.T, s *embedded.Server) *etcd.Broker {
	t.Helper()
	b, err := embedded.Dial(t.Context(), s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestMembers_OfAClosedBrokerAreAnError(t *testing.T) {
	b := startServer(t, fast()).Broker()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Members(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := b.Reclaim(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// fill writes until the store is full. It learns of its size with its commits, every
// 100 ms, within which a fast machine writes much more than fits.
func fill(t *testing.T, b broker.Broker, key func(i int) string) {
	t.Helper()
	value := bytes.Repeat([]byte("x"), broker.ValueBytesMax)
	for i := range 4000 {
		_, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Put(key(i), value)}})
		if errors.Is(err, broker.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("2 GiB fit")
}

// TestReclaim_MakesAFullStoreTakeWritesAgain fills a store with versions of one
// key, all but the last of which are history.
func TestReclaim_MakesAFullStoreTakeWritesAgain(t *testing.T) {
	config := fast()
	config.Dir, config.Socket, config.QuotaBytes = t.TempDir(), true, 18<<20
	s := startServer(t, config)
	for _, b := range []*etcd.Broker{s.Broker(), dial(t, s)} {
		fill(t, b, func(int) string { return "/a" })
		before, err := b.Members(t.Context())
		if err != nil || !slices.Contains(before[0].Alarms, etcd.AlarmNoSpace) {
			t.Fatalf("%+v, %v", before, err)
		}
		if err := b.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := b.Members(t.Context())
		if err != nil || len(after[0].Alarms) > 0 || after[0].DBSize >= before[0].DBSize/2 {
			t.Errorf("before %+v, after %+v, %v", before, after, err)
		}
		mustCommit(t, b, put("/b"))
	}
}

func TestReclaim_DoesNotDisarmWhatIsFullOfLiveData(t *testing.T) {
	config := fast()
	config.QuotaBytes = 18 << 20
	b := startServer(t, config).Broker()
	// The file of the database grows ahead of what is in it, so that there can be
	// room once it was written anew.
	written, rounds := 0, 0
	var err error
	for ; err == nil && rounds < 20; rounds++ {
		fill(t, b, func(int) string { written++; return fmt.Sprintf("/a/%d", written) })
		err = b.Reclaim(t.Context())
	}
	if !errors.Is(err, broker.ErrNoSpace) {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
	members, err := b.Members(t.Context())
	if err != nil || !slices.Contains(members[0].Alarms, etcd.AlarmNoSpace) {
		t.Errorf("%+v, %v", members, err)
	}
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.DeleteTree("/a/")}})
	if err := b.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	mustCommit(t, b, put("/b"))
}
