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

// BenchmarkSessions reports the cost of idle sessions, each with a connection of its own
// to an etcd in another process that writes to disk. It compares the sessions of nodes
// with leases that etcd's own client renews as often. Up to a hundred are also measured
// as a user with a password; with more, etcd cannot handle a login for each renewal. CPU
// is for a whole second, late counts the renewals that took longer than a node waits for
// one, lost the lost sessions.
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

// password is that of every user.
const password = "secret"

// requirePassword makes an etcd accept only root.
func requirePassword(ctx context.Context, endpoints []string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close() // nothing is in flight
	if _, err := client.UserAdd(ctx, "root", password); err != nil {
		return err
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		return err
	}
	_, err = client.AuthEnable(ctx)
	return err
}

// keptSession is a session or a lease.
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

// passwordOf returns the password of a user, empty for none.
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
			must(b, requirePassword(b.Context(), server.endpoints))
		}
		look := openEtcd(b, etcd.Config{Endpoints: server.endpoints, Username: user, Password: passwordOf(user)})
		ctx, stop := context.WithCancel(b.Context())
		var late, lost atomic.Int64
		var keeping sync.WaitGroup
		kept := make([]keptSession, n)
		// The starts are spread over the time of three renewals. In step, renewals would
		// share costs, and logins would happen together.
		turn := time.Tick(3 * session.Derive(session.TTLDefault).Renew / time.Duration(n))
		for i := range kept {
			<-turn
			var err error
			kept[i], err = open(b.Context(), server.endpoints, user)
			must(b, err)
			keeping.Go(func() { keep(ctx, kept[i], &late, &lost) })
		}
		<-time.After(2 * session.TTLDefault) // until all renew regularly, and checks have become rare
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
			must(b, k.close())
		}
		must(b, errors.Join(look.Close(), server.close()))
	}
}

// keep renews as often as a node does, and counts renewals that took longer than a node
// waits.
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

// spent is what was used so far.
type spent struct {
	etcd, ours       time.Duration // processor time; zero if the system does not report it
	requests, logins int
	revision         broker.Revision
	space            int64 // bytes of the store
}

func spentBy(b *testing.B, server *etcdCluster, look *etcd.Broker) (s spent) {
	s.etcd = processorTime(server.pids()...)
	s.ours = processorTime(os.Getpid()) - s.etcd
	s.requests, s.logins = server.answered(b)
	var err, listErr error
	s.space, _, err = look.Space(b.Context())
	_, s.revision, listErr = broker.Collect(b.Context(), look, "/bench/")
	must(b, errors.Join(err, listErr))
	return s
}
