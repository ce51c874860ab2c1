//go:build e2e

package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// renewing renews a session of a broker, times times or else until the end of the test, and returns a
// channel with the time of the last renewal.
func renewing(t *testing.T, b *Broker, id broker.SessionID, every time.Duration, times int) <-chan time.Time {
	last := make(chan time.Time, 1)
	go func() {
		for n := 1; ; n++ {
			sent := time.Now()
			if _, err := b.KeepAlive(t.Context(), id); err != nil && t.Context().Err() == nil {
				t.Errorf("KeepAlive: %v", err)
			}
			if n == times {
				last <- sent
				return
			}
			select {
			case <-time.After(every):
			case <-t.Context().Done():
				return
			}
		}
	}()
	return last
}

// A server rounds timeouts up to whole ticks and hears late of who renews; those that have sessions
// see it sooner, and never too soon. A session that is renewed just in time is left alone.
func TestSilence_M14_OthersEndASilentSessionAfterItsTTL(t *testing.T) {
	const ttl, tick = 5 * time.Second, 2 * time.Second
	server := zktest.Start(t, zktest.Options{Tick: tick})
	config := testConfig(server.Address())
	config.TickTime = tick
	open := func() *Broker { return openTest(t, config) }
	watching := open()
	witness, slow := mustGrant(t, watching, ttl), mustGrant(t, watching, 2*ttl)
	renewing(t, watching, witness.ID, ttl/5, 0)
	renewing(t, open(), slow.ID, 2*ttl*9/10, 0)
	for _, how := range []string{"its process is gone", "it is not renewed"} {
		t.Run(how, func(t *testing.T) {
			b := open()
			s := mustGrant(t, b, ttl)
			r := mustCommit(t, b, putSession("/ns/nodes/n/info", s.ID))[0]
			last := <-renewing(t, b, s.ID, ttl/5, 5)
			if how == "its process is gone" {
				for _, s := range b.sessions {
					s.conn.Close()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
			defer cancel()
			for batch, err := range watching.Watch(ctx, "/ns/nodes/", r.Revision+1) {
				if err != nil {
					t.Fatalf("its key is still there: %v", err)
				}
				if len(batch.Events) == 0 {
					continue
				}
				if took := time.Since(last); took < ttl || took > ttl+time.Second {
					t.Errorf("it ended %v after its last renewal, with a TTL of %v", took, ttl)
				}
				break
			}
			if _, err := b.KeepAlive(t.Context(), s.ID); !errors.Is(err, broker.ErrSessionExpired) {
				t.Errorf("KeepAlive: %v", err)
			}
		})
	}
}
