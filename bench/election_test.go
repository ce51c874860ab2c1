package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/windlass-go/windlass/election"
)

// handOvers is how often the leader changes in each kind of election, takeOvers the
// number of leaders of each kind that are lost at once.
const (
	handOvers = 100
	takeOvers = 20
)

// electionKind is one of the two kinds of election that are compared.
type electionKind struct {
	unit string // the prefix of its metrics
	// prefix is that of the candidates' keys of a contest.
	prefix func(contest string) string
	// join adds a candidate, which joins again whenever it has resigned, until the
	// contest is over. It returns a function that makes the candidate resign.
	join func(c *contest, client *electionClient, candidate int) (resign func(), err error)
}

var electionKinds = []electionKind{
	{unit: "", prefix: func(contest string) string { return "/" + contest + "/elections/e/" }, join: joinWindlass},
	{unit: "etcd-", prefix: func(contest string) string { return "/peer/" + contest + "/" }, join: joinEtcd},
}

// benchmarkHandOver makes the leader of an election resign, and reports the time until
// the next leader's function runs. In turns it does the same with the etcd client's own
// concurrency.Election. All candidates of a kind share a connection, and a candidate
// that has resigned joins again at the end.
func benchmarkHandOver(b *testing.B) {
	for _, candidates := range []int{3, 100, 1000} {
		b.Run(fmt.Sprintf("candidates=%d", candidates), func(b *testing.B) {
			for range b.N {
				handOver(b, candidates, handOvers)
			}
		})
	}
}

// calmFor is how long nothing happens before a leader resigns. etcd may deliver late on a
// watch that began less than 100 ms ago, which would affect the two kinds at random.
const calmFor = 110 * time.Millisecond

func handOver(b *testing.B, candidates, times int) {
	server := startEtcd(b, 1)
	contests := make([]*contest, len(electionKinds))
	took := make([][]float64, len(electionKinds))
	for i, kind := range electionKinds {
		contests[i] = newContest(b, kind, server.endpoints, "handover", time.Minute)
		client := contests[i].dial()
		for range candidates {
			contests[i].join(client)
		}
		contests[i].settle()
		contests[i].next()
		for range candidates { // until each has joined again behind all others
			contests[i].resign[contests[i].leader]()
			contests[i].next()
			contests[i].settle()
		}
		client.requests.Store(0)
	}
	turns := []int{0, 1}
	for range times {
		for _, i := range turns {
			c := contests[i]
			<-time.After(calmFor)
			began := time.Now()
			c.resign[c.leader]()
			took[i] = append(took[i], milliseconds(c.next().Sub(began)))
			c.settle()
		}
		slices.Reverse(turns) // so that neither always comes first
	}
	for i, c := range contests {
		b.ReportMetric(percentile(took[i], 50), c.kind.unit+"ms")
		b.ReportMetric(percentile(took[i], 95), c.kind.unit+"p95-ms")
		b.ReportMetric(float64(c.clients[0].requests.Load())/float64(times), c.kind.unit+"requests")
		c.close()
	}
	must(b, server.close())
}

// takeOverTTL is the TTL of the sessions of leaders that are lost, the shortest that both
// etcd's client and Windlass support; cutAfter is when such a leader is cut off.
const (
	takeOverTTL = 5 * time.Second
	cutAfter    = 3 * time.Second
)

// benchmarkTakeOver cuts leaders off from the store, all within two seconds. It reports
// when the next one leads: the time since the expiry of the leader's session, which is a
// TTL after its last renewal was sent. It does the same with the etcd client's election.
func benchmarkTakeOver(b *testing.B) {
	for range b.N {
		server := startEtcd(b, 1)
		var mu sync.Mutex
		late := make([][]float64, len(electionKinds))
		var all sync.WaitGroup
		for n := range takeOvers {
			<-time.After(takeOverTTL / 3 / takeOvers) // spread over the time between two renewals
			for i, kind := range electionKinds {
				c := newContest(b, kind, server.endpoints, fmt.Sprint("takeover", n), takeOverTTL)
				first, second := c.dial(), c.dial()
				c.join(first)
				c.next()
				c.join(second)
				all.Go(func() {
					<-time.After(cutAfter)
					first.cut.Store(true)
					at, ok := c.leads()
					expired := first.renewed().Add(takeOverTTL)
					c.close()
					mu.Lock()
					defer mu.Unlock()
					if ok {
						late[i] = append(late[i], milliseconds(at.Sub(expired)))
					}
				})
			}
		}
		all.Wait()
		for i, kind := range electionKinds {
			b.ReportMetric(percentile(late[i], 50), kind.unit+"ms")
			b.ReportMetric(percentile(late[i], 100), kind.unit+"max-ms")
		}
		must(b, server.close())
	}
}

// elected is a leader, and since when it leads.
type elected struct {
	candidate int
	at        time.Time
}

// contest is an election with its candidates. Its methods are for one goroutine, except
// fail.
type contest struct {
	b         *testing.B
	kind      electionKind
	endpoints []string
	name      string
	ttl       time.Duration
	clients   []*electionClient
	resign    []func() // by candidate
	leader    int
	elected   chan elected

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// candidatesMax limits the leaders, one after the other, that are not received yet.
const candidatesMax = 1000

func newContest(b *testing.B, kind electionKind, endpoints []string, name string, ttl time.Duration) *contest {
	c := &contest{b: b, kind: kind, endpoints: endpoints, name: name, ttl: ttl, elected: make(chan elected, candidatesMax)}
	c.ctx, c.stop = context.WithCancel(b.Context())
	return c
}

// fail ends the contest with an error, unless it is over or the client is to fail.
func (c *contest) fail(client *electionClient, err error) {
	if err != nil && c.ctx.Err() == nil && !client.cut.Load() {
		c.b.Error(err)
		c.stop()
	}
}

func (c *contest) dial() *electionClient {
	client, err := dialElection(c.endpoints)
	must(c.b, err)
	c.clients = append(c.clients, client)
	return client
}

func (c *contest) join(client *electionClient) {
	resign, err := c.kind.join(c, client, len(c.resign))
	must(c.b, err)
	c.resign = append(c.resign, resign)
}

// leads waits for the next leader.
func (c *contest) leads() (at time.Time, ok bool) {
	select {
	case e := <-c.elected:
		c.leader = e.candidate
		return e.at, true
	case <-c.ctx.Done(): // the error was reported
		return time.Time{}, false
	}
}

// next waits for the next leader, or ends the benchmark.
func (c *contest) next() time.Time {
	at, ok := c.leads()
	if !ok {
		c.b.FailNow()
	}
	return at
}

// settle waits until all candidates have joined.
func (c *contest) settle() {
	poll(0, func() bool {
		n, err := c.clients[0].count(c.ctx, c.kind.prefix(c.name))
		must(c.b, err)
		return n == len(c.resign)
	})
}

func (c *contest) close() {
	c.stop()
	c.running.Wait()
	for _, client := range c.clients {
		if err := client.store.Close(); err != nil {
			c.b.Error(err)
		}
	}
}

func joinWindlass(c *contest, client *electionClient, candidate int) (resign func(), err error) {
	m, err := election.New(election.Config{Broker: client.store, Namespace: c.name, Candidate: fmt.Sprint(candidate), TTL: c.ttl})
	if err != nil {
		return nil, err
	}
	e, err := m.Election("e", election.Events{})
	if err != nil {
		return nil, err
	}
	if err := e.Start(); err != nil {
		return nil, err
	}
	c.running.Go(func() { c.fail(client, m.Run(c.ctx)) })
	c.running.Go(func() {
		c.fail(client, e.Lead(c.ctx, func(ctx context.Context, _ election.Term) error {
			c.elected <- elected{candidate, time.Now()}
			<-ctx.Done()
			return ctx.Err()
		}))
	})
	return func() { c.running.Go(func() { c.fail(client, e.Resign(c.ctx)) }) }, nil
}

func joinEtcd(c *contest, client *electionClient, candidate int) (resign func(), err error) {
	s, err := concurrency.NewSession(client.Client, concurrency.WithTTL(int(c.ttl/time.Second)), concurrency.WithContext(c.ctx))
	if err != nil {
		return nil, err
	}
	e := concurrency.NewElection(s, "/peer/"+c.name)
	told := make(chan struct{}, 1)
	c.running.Go(func() {
		for c.ctx.Err() == nil {
			if err := e.Campaign(c.ctx, fmt.Sprint(candidate)); err != nil {
				c.fail(client, err)
				return
			}
			c.elected <- elected{candidate, time.Now()}
			select {
			case <-told:
				c.fail(client, e.Resign(c.ctx))
			case <-c.ctx.Done():
			}
		}
	})
	return func() { told <- struct{}{} }, nil
}
