package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/bench/internal/proc"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/session"
)

// sessionsFor is how long BenchmarkSessions renews.
const sessionsFor = 30 * time.Second

// BenchmarkSessions reports what idle sessions cost, each with a connection of its own to
// an etcd in another process that writes to disk: those of a node, and leases that the
// stock client renews as often. CPU is of a whole second; late are renewals that took
// longer than a node waits for one.
func BenchmarkSessions(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("%d/session", n), func(b *testing.B) { benchmarkSessions(b, n, openSession) })
		b.Run(fmt.Sprintf("%d/lease", n), func(b *testing.B) { benchmarkSessions(b, n, openLease) })
	}
}

// keptSession is one of the two kinds.
type keptSession struct {
	renew func(context.Context) error
	close func() error
}

func openSession(ctx context.Context, endpoints []string) (keptSession, error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: endpoints})
	if err != nil {
		return keptSession{}, err
	}
	s, err := store.Grant(ctx, "/bench/sessions/", session.TTLDefault)
	return keptSession{
		renew: func(ctx context.Context) error { _, err := store.KeepAlive(ctx, s.ID); return err },
		close: store.Close,
	}, err
}

func openLease(ctx context.Context, endpoints []string) (keptSession, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return keptSession{}, err
	}
	s, err := client.Grant(ctx, int64(session.TTLDefault.Seconds()))
	if err != nil {
		return keptSession{}, err
	}
	return keptSession{
		renew: func(ctx context.Context) error { _, err := client.KeepAliveOnce(ctx, s.ID); return err },
		close: client.Close,
	}, nil
}

func benchmarkSessions(b *testing.B, n int, open func(context.Context, []string) (keptSession, error)) {
	for range b.N {
		dir := b.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		server, err := servers.StartEtcd(b.Context(), dir, 1)
		if err != nil {
			b.Fatal(err)
		}
		look, err := etcd.Open(b.Context(), etcd.Config{Endpoints: server.Endpoints})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		var late atomic.Int64
		var keeping sync.WaitGroup
		kept := make([]keptSession, n)
		for i := range kept {
			if kept[i], err = open(b.Context(), server.Endpoints); err != nil {
				b.Fatal(err)
			}
			keeping.Go(func() { keep(ctx, kept[i], &late) })
		}
		<-time.After(2 * session.TTLDefault) // until all are under way, and looks are as seldom as they will be
		late.Store(0)
		before := spentBy(b, server, look)
		<-time.After(sessionsFor)
		after := spentBy(b, server, look)
		seconds := sessionsFor.Seconds()
		for unit, of := range map[string]float64{
			"etcd-ms/s":   (after.etcd - before.etcd).Seconds() * 1000 / seconds,
			"ours-ms/s":   (after.ours - before.ours).Seconds() * 1000 / seconds,
			"requests/s":  float64(after.requests-before.requests) / seconds,
			"revisions/s": float64(after.revision-before.revision) / seconds,
			"B/s":         float64(after.space-before.space) / seconds,
			"late":        float64(late.Load()),
		} {
			b.ReportMetric(of, unit)
		}
		stop()
		keeping.Wait()
		for _, k := range kept {
			if err := k.close(); err != nil {
				b.Error(err)
			}
		}
		if err := look.Close(); err != nil {
			b.Error(err)
		}
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}
}

// keep renews as often as a node does, and counts what took longer than a node waits.
func keep(ctx context.Context, kept keptSession, late *atomic.Int64) {
	timing := session.Derive(session.TTLDefault)
	for tick := time.Tick(timing.Renew); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if began := time.Now(); kept.renew(ctx) != nil && ctx.Err() == nil || time.Since(began) > timing.Try {
			late.Add(1)
		}
	}
}

// spent is what has been used up to a moment.
type spent struct {
	etcd, ours time.Duration // of processors; zero where the system does not tell
	requests   int
	revision   broker.Revision
	space      int64 // bytes of the store
}

func spentBy(b *testing.B, server *servers.Etcd, look *etcd.Broker) (s spent) {
	s.etcd, _ = proc.CPU(server.Pids()...)
	all, _ := proc.CPU(os.Getpid())
	s.ours = all - s.etcd
	var err error
	if s.requests, err = server.Requests(b.Context()); err != nil {
		b.Fatal(err)
	}
	if s.space, _, err = look.Space(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, s.revision, err = broker.Collect(b.Context(), look, "/bench/"); err != nil {
		b.Fatal(err)
	}
	return s
}
