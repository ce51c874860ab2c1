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
	timing := session.Derive(session.TTLDefault)
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
			keeping.Go(func() {
				for tick := time.Tick(timing.Renew); ; {
					select {
					case <-ctx.Done():
						return
					case <-tick:
					}
					if began := time.Now(); kept[i].renew(ctx) != nil && ctx.Err() == nil || time.Since(began) > timing.Try {
						late.Add(1)
					}
				}
			})
		}
		<-time.After(2 * session.TTLDefault) // until all are under way, and looks are as seldom as they will be
		late.Store(0)
		cpu := func() (store, ours time.Duration) {
			store, _ = proc.CPU(server.Pids()...) // zero where the system does not tell
			all, _ := proc.CPU(os.Getpid())
			return store, all - store
		}
		space := func() int64 { used, _, _ := look.Space(b.Context()); return used }
		_, revision, err := broker.Collect(b.Context(), look, "/bench/")
		if err != nil {
			b.Fatal(err)
		}
		store, ours := cpu()
		before := space()
		<-time.After(sessionsFor)
		storeAfter, oursAfter := cpu()
		_, revisionAfter, err := broker.Collect(b.Context(), look, "/bench/")
		if err != nil {
			b.Fatal(err)
		}
		seconds := sessionsFor.Seconds()
		b.ReportMetric(float64((storeAfter-store).Microseconds())/1000/seconds, "etcd-ms/s")
		b.ReportMetric(float64((oursAfter-ours).Microseconds())/1000/seconds, "ours-ms/s")
		b.ReportMetric(float64(revisionAfter-revision)/seconds, "revisions/s")
		b.ReportMetric(float64(space()-before)/seconds, "B/s")
		b.ReportMetric(float64(late.Load()), "late")
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
