package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/election"
)

// handOvers is how often BenchmarkHandOver changes the leader, on each side, and
// calm how long nothing happens before each: a watch that began less than 100 ms
// ago is one that etcd may deliver late, and which of them that meets is chance.
const (
	handOvers = 100
	calm      = 110 * time.Millisecond
)

// dialed is a client of a server's socket that counts what it sends.
type dialed struct {
	*clientv3.Client
	// requests are those of transactions and reads, watches those to begin one.
	requests, watches atomic.Int64
	mu                sync.Mutex
	// renewed is when the last renewal of each lease was sent.
	renewed map[clientv3.LeaseID]time.Time
}

func dial(b *testing.B, server *embedded.Server) *dialed {
	b.Helper()
	d := &dialed{renewed: map[clientv3.LeaseID]time.Time{}}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + server.Socket()}, Logger: zap.NewNop(), // it tells of every call that is cancelled
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(d.unary),
			grpc.WithChainStreamInterceptor(d.stream),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	d.Client = client
	b.Cleanup(func() { _ = client.Close() }) // the broker that owns it has closed it
	return d
}

func (d *dialed) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch req.(type) {
	case *pb.TxnRequest, *pb.RangeRequest, *pb.PutRequest, *pb.DeleteRangeRequest:
		d.requests.Add(1)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (d *dialed) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return &counted{ClientStream: s, dialed: d}, err
}

// counted is a stream that counts what is sent on it.
type counted struct {
	grpc.ClientStream
	dialed *dialed
}

// SendMsg implements grpc.ClientStream.
func (c *counted) SendMsg(m any) error {
	switch m := m.(type) {
	case *pb.WatchRequest:
		if m.GetCreateRequest() != nil {
			c.dialed.watches.Add(1)
		}
	case *pb.LeaseKeepAliveRequest:
		c.dialed.mu.Lock()
		c.dialed.renewed[clientv3.LeaseID(m.ID)] = time.Now()
		c.dialed.mu.Unlock()
	}
	return c.ClientStream.SendMsg(m)
}

// elected is who leads, and since when.
type elected struct {
	candidate int
	at        time.Time
}

// contest is an election with candidates that stand again whenever they resign.
type contest struct {
	resign func(candidate int)
	leads  chan elected
	leader int
	client *dialed
	prefix string
}

// next waits for the next leader.
func (c *contest) next() elected {
	e := <-c.leads
	c.leader = e.candidate
	return e
}

// handOver has the leader resign, and returns how long it took until the next led.
func (c *contest) handOver() time.Duration {
	began := time.Now()
	c.resign(c.leader)
	return c.next().at.Sub(began)
}

// settle waits until as many candidates as there are stand.
func settle(b *testing.B, asking *clientv3.Client, prefix string, candidates int) {
	b.Helper()
	for {
		r, err := asking.Get(b.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			b.Fatal(err)
		}
		if int(r.Count) == candidates {
			return
		}
	}
}

// windlassContest has members stand on a client that they share.
func windlassContest(b *testing.B, server *embedded.Server, candidates int) *contest {
	b.Helper()
	client := dial(b, server)
	store := etcd.New(client.Client, etcd.Options{})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	c := &contest{leads: make(chan elected, candidates), client: client, prefix: "/bench/elections/e/"}
	elections := make([]*election.Election, candidates)
	c.resign = func(i int) {
		running.Go(func() { _ = elections[i].Resign(ctx) }) // it fails when all is over
	}
	for i := range candidates {
		m, err := election.New(election.Config{Broker: store, Namespace: "bench", Candidate: fmt.Sprint(i), TTL: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		e, err := m.Election("e", election.Events{Error: func(err error) { b.Error(err) }})
		if err == nil {
			err = e.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		elections[i] = e
		running.Go(func() { _ = m.Run(ctx) })
		running.Go(func() {
			_ = e.Lead(ctx, func(ctx context.Context, _ election.Term) error {
				c.leads <- elected{i, time.Now()}
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}
	return c
}

// etcdContest is the same with the etcd client's own election.
func etcdContest(b *testing.B, server *embedded.Server, candidates int) *contest {
	b.Helper()
	client := dial(b, server)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	c := &contest{leads: make(chan elected, candidates), client: client, prefix: "/peer/e/"}
	resign := make([]chan struct{}, candidates)
	c.resign = func(i int) { resign[i] <- struct{}{} }
	for i := range candidates {
		resign[i] = make(chan struct{}, 1)
		s, err := concurrency.NewSession(client.Client, concurrency.WithTTL(60), concurrency.WithContext(ctx))
		if err != nil {
			b.Fatal(err)
		}
		e := concurrency.NewElection(s, "/peer/e")
		running.Go(func() {
			for e.Campaign(ctx, fmt.Sprint(i)) == nil {
				c.leads <- elected{i, time.Now()}
				select {
				case <-resign[i]:
				case <-ctx.Done():
					return
				}
				if err := e.Resign(ctx); err != nil {
					return
				}
			}
		})
	}
	return c
}

// BenchmarkHandOver has the leader of an election resign, who then stands again at
// the end, and measures how long it takes until the next one's function runs;
// beside the same with the etcd client's concurrency.Election, in turns, on one
// server that writes to disk.
func BenchmarkHandOver(b *testing.B) {
	for _, candidates := range []int{3, 100, 1000} {
		b.Run(fmt.Sprint(candidates), func(b *testing.B) {
			for range b.N {
				server := startWith(b, embedded.Config{Socket: true})
				asking := dial(b, server).Client
				contests := []*contest{windlassContest(b, server, candidates), etcdContest(b, server, candidates)}
				times := make([][]time.Duration, len(contests))
				var requests, watches [2]int64
				for i, c := range contests {
					settle(b, asking, c.prefix, candidates)
					c.next()
					requests[i], watches[i] = -c.client.requests.Load(), -c.client.watches.Load()
				}
				for range handOvers {
					for i, c := range contests {
						<-time.After(calm)
						times[i] = append(times[i], c.handOver())
						settle(b, asking, c.prefix, candidates)
					}
				}
				for i, c := range contests {
					requests[i] += c.client.requests.Load()
					watches[i] += c.client.watches.Load()
					slices.Sort(times[i])
				}
				ours, theirs := times[0][handOvers/2], times[1][handOvers/2]
				b.ReportMetric(milliseconds(ours), "ms")
				b.ReportMetric(milliseconds(theirs), "etcd-ms")
				b.ReportMetric(float64(ours)/float64(theirs), "of-etcd")
				b.ReportMetric(milliseconds(times[0][handOvers*99/100]), "p99-ms")
				b.ReportMetric(milliseconds(times[1][handOvers*99/100]), "etcd-p99-ms")
				for i, of := range []string{"", "etcd-"} {
					b.ReportMetric(float64(requests[i])/handOvers, of+"requests")
					b.ReportMetric(float64(watches[i])/handOvers, of+"watches")
				}
			}
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// takeOvers is how many leaders BenchmarkTakeOver loses at once, on each side, and
// takeOverTTL the TTL of their sessions, the least that etcd's client and Windlass
// both take.
const (
	takeOvers   = 20
	takeOverTTL = 5 * time.Second
)

// late collects how long after the expiry of a leader's session the next led.
type late struct {
	mu    sync.Mutex
	times []time.Duration
}

func (l *late) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, d)
}

// BenchmarkTakeOver cuts leaders off from the store, and measures when the next one
// leads: after the expiry of the leader's session, which is a TTL after its last
// renewal was sent. Beside it the same with the etcd client's election.
func BenchmarkTakeOver(b *testing.B) {
	for range b.N {
		server := startWith(b, embedded.Config{Socket: true})
		var ours, theirs late
		var all sync.WaitGroup
		for i := range takeOvers {
			all.Go(func() { stagger(i); windlassTakeOver(b, server, i, &ours) })
			all.Go(func() { stagger(i); etcdTakeOver(b, server, i, &theirs) })
		}
		all.Wait()
		for of, l := range map[string]*late{"": &ours, "etcd-": &theirs} {
			slices.Sort(l.times)
			b.ReportMetric(milliseconds(l.times[len(l.times)/2]), of+"ms")
			b.ReportMetric(milliseconds(l.times[len(l.times)-1]), of+"max-ms")
		}
	}
}

// cutAfter is when the leader of an election is cut off.
const cutAfter = 3 * time.Second

// stagger spreads the elections over the time between two renewals.
func stagger(i int) { <-time.After(takeOverTTL / 3 * time.Duration(i) / takeOvers) }

func windlassTakeOver(b *testing.B, server *embedded.Server, i int, late *late) {
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	leads := make(chan int, 2)
	var expires atomic.Int64 // of the first's session, since began
	began := time.Now()
	var lines []*faulty.Broker
	for n := range 2 {
		client := dial(b, server)
		line := faulty.Wrap(etcd.New(client.Client, etcd.Options{}), nil)
		defer line.Close() // nothing is written that counts
		lines = append(lines, line)
		m, err := election.New(election.Config{Broker: line, Namespace: fmt.Sprint("takeover", i), Candidate: fmt.Sprint(n), TTL: takeOverTTL})
		if err != nil {
			b.Error(err)
			return
		}
		e, err := m.Election("e", election.Events{})
		if err == nil {
			err = e.Start()
		}
		if err != nil {
			b.Error(err)
			return
		}
		running.Go(func() { _ = m.Run(ctx) })
		running.Go(func() {
			_ = e.Lead(ctx, func(ctx context.Context, _ election.Term) error {
				leads <- n
				<-ctx.Done()
				return ctx.Err()
			})
		})
		if n == 0 {
			<-leads
			time.AfterFunc(cutAfter, func() {
				line.Freeze()
				expires.Store(int64(client.lastRenewal().Add(takeOverTTL).Sub(began)))
			})
		}
	}
	<-leads
	late.add(time.Since(began) - time.Duration(expires.Load()))
	lines[0].Thaw()
}

// lastRenewal is when the latest renewal was sent.
func (d *dialed) lastRenewal() (last time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.renewed {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func etcdTakeOver(b *testing.B, server *embedded.Server, i int, late *late) {
	name := fmt.Sprint("/peer/takeover", i)
	var first *dialed
	var expires time.Time
	for n := range 2 {
		client := dial(b, server)
		s, err := concurrency.NewSession(client.Client, concurrency.WithTTL(int(takeOverTTL/time.Second)))
		if err != nil {
			b.Error(err)
			return
		}
		e := concurrency.NewElection(s, name)
		if n == 0 {
			if err := e.Campaign(b.Context(), "0"); err != nil {
				b.Error(err)
				return
			}
			first = client
			defer time.AfterFunc(cutAfter, func() {
				s.Orphan() // it is renewed no more, and not revoked
				expires = first.lastRenewal().Add(takeOverTTL)
			}).Stop()
			continue
		}
		if err := e.Campaign(b.Context(), "1"); err != nil {
			b.Error(err)
			return
		}
		late.add(time.Since(expires))
	}
}
