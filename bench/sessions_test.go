package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/session"
)

// sessionsFor is how long BenchmarkSessions renews.
const sessionsFor = 30 * time.Second

// BenchmarkSessions reports what idle sessions cost, each with a connection of its own to
// an etcd in another process that writes to disk: those of a node, and leases that the
// stock client renews as often; up to a hundred also as a user with a password, as etcd
// cannot have more leases log in for each renewal. CPU is of a whole second; late are
// renewals that took longer than a node waits for one, lost are sessions.
func BenchmarkSessions(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		users := []string{"", "root"}
		if n > 100 {
			users = users[:1]
		}
		for _, user := range users {
			b.Run(fmt.Sprintf("%d/session%s", n, user), func(b *testing.B) { benchmarkSessions(b, n, user, openSession) })
			b.Run(fmt.Sprintf("%d/lease%s", n, user), func(b *testing.B) { benchmarkSessions(b, n, user, openLease) })
		}
	}
}

// password is that of every user here.
const password = "secret"

// requirePassword has an etcd let in nobody but root.
func requirePassword(ctx context.Context, endpoints []string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close() // what it was for is done or has failed
	if _, err := client.UserAdd(ctx, "root", password); err != nil {
		return err
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		return err
	}
	_, err = client.AuthEnable(ctx)
	return err
}

// keptSession is one of the two kinds.
type keptSession struct {
	renew func(context.Context) error
	close func() error
}

func openSession(ctx context.Context, endpoints []string, user string) (keptSession, error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: endpoints, Username: user, Password: passwordOf(user)})
	if err != nil {
		return keptSession{}, err
	}
	s, err := store.Grant(ctx, "/bench/sessions/", session.TTLDefault)
	return keptSession{
		renew: func(ctx context.Context) error { _, err := store.KeepAlive(ctx, s.ID); return err },
		close: store.Close,
	}, err
}

func openLease(ctx context.Context, endpoints []string, user string) (keptSession, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: user, Password: passwordOf(user), Logger: zap.NewNop(),
	})
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

// passwordOf is empty for nobody.
func passwordOf(user string) string {
	if user == "" {
		return ""
	}
	return password
}

func benchmarkSessions(b *testing.B, n int, user string, open func(context.Context, []string, string) (keptSession, error)) {
	for range b.N {
		server := startEtcd(b, 1)
		if user != "" {
			if err := requirePassword(b.Context(), server.endpoints); err != nil {
				b.Fatal(err)
			}
		}
		look, err := etcd.Open(b.Context(), etcd.Config{Endpoints: server.endpoints, Username: user, Password: passwordOf(user)})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		var late, lost atomic.Int64
		var keeping sync.WaitGroup
		kept := make([]keptSession, n)
		// Evenly over the time of three renewals: in step they would share what each costs alone,
		// and those that log in before are not.
		turn := time.Tick(3 * session.Derive(session.TTLDefault).Renew / time.Duration(n))
		for i := range kept {
			<-turn
			if kept[i], err = open(b.Context(), server.endpoints, user); err != nil {
				b.Fatal(err)
			}
			keeping.Go(func() { keep(ctx, kept[i], &late, &lost) })
		}
		<-time.After(2 * session.TTLDefault) // until all are under way, and looks are as seldom as they will be
		late.Store(0)
		lost.Store(0)
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
			"logins":      float64(after.logins - before.logins),
			"late":        float64(late.Load()),
			"lost":        float64(lost.Load()),
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
		if err := server.close(); err != nil {
			b.Error(err)
		}
	}
}

// keep renews as often as a node does, and counts what took longer than a node waits.
func keep(ctx context.Context, kept keptSession, late, lost *atomic.Int64) {
	timing := session.Derive(session.TTLDefault)
	for tick := time.Tick(timing.Renew); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		began := time.Now()
		err := kept.renew(ctx)
		if err != nil && ctx.Err() == nil || time.Since(began) > timing.Try {
			late.Add(1)
		}
		if errors.Is(err, broker.ErrSessionExpired) || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			lost.Add(1)
			return
		}
	}
}

// spent is what has been used up to a moment.
type spent struct {
	etcd, ours time.Duration // of processors; zero where the system does not tell
	requests   int
	logins     int
	revision   broker.Revision
	space      int64 // bytes of the store
}

func spentBy(b *testing.B, server *etcdCluster, look *etcd.Broker) (s spent) {
	s.etcd = processorTime(server.pids()...)
	s.ours = processorTime(os.Getpid()) - s.etcd
	s.requests, s.logins = server.answered(b)
	var err error
	if s.space, _, err = look.Space(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, s.revision, err = broker.Collect(b.Context(), look, "/bench/"); err != nil {
		b.Fatal(err)
	}
	return s
}
