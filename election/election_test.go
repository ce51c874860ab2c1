package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/zksuite"
)

func TestElection_L01_BlankNamesAreErrorsAndTheExpiryDefaultsToTenSeconds(t *testing.T) {
	store := memory.New()
	defer func() { _ = store.Close() }()
	good := Config{Broker: store.Broker(), Namespace: "test", Candidate: "foo"}
	for field, spoil := range map[string]func(*Config){
		"Broker":         func(c *Config) { c.Broker = nil },
		"namespace":      func(c *Config) { c.Namespace = " " },
		"candidate name": func(c *Config) { c.Candidate = "" },
		"TTL":            func(c *Config) { c.TTL = time.Second },
	} {
		config := good
		spoil(&config)
		_, err := New(config)
		if wrong, ok := errors.AsType[*invalid.Input](err); !ok || wrong.Field != field {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
	m, err := New(good)
	if err != nil || m.config.TTL != 10*time.Second {
		t.Fatalf("the member is %+v, %v", m, err)
	}
	for _, name := range []string{"", " ", "a/b"} {
		if _, err := m.Election(name, Events{}); err == nil {
			t.Errorf("election %q was accepted", name)
		}
	}
	_, once := m.Election("e", Events{})
	if _, err := m.Election("e", Events{}); once != nil || !errors.Is(err, ErrTwice) {
		t.Errorf("election e: %v; a second one: %v", once, err)
	}
}

func TestElection_L02_StartAndStopAreIdempotent(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.election("e")
		c.check(e.Stop(c.Context()))
		c.check(e.Start())
		c.check(e.Start())
		c.sleep(time.Second)
		c.wantLine("e", "foo")
		c.happened("foo elected", "foo leader foo")
		c.check(e.Stop(c.Context()))
		c.check(e.Stop(c.Context()))
		c.wantLine("e")
		c.happened("foo unelected the election was stopped")
		c.check(e.Start())
		c.sleep(time.Second)
		c.happened("foo elected", "foo leader foo")
	})
}

func TestElection_L02_StopBeforeTheFirstRequestMakesNone(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, without := c.idle("foo"), c.idle("without")
		e := foo.election("e")
		c.check(e.Start())
		c.settle()
		c.check(e.Stop(c.Context()))
		foo.start()
		without.start()
		c.sleep(time.Minute)
		// Every member reads the layout, even without elections.
		if n, m := foo.counts.calls.Load(), without.counts.calls.Load(); n != m || e.IsRunning() {
			c.Errorf("%d requests were made, %d without an election; running: %t", n, m, e.IsRunning())
		}
	})
}

func TestMember_ANewerLayoutIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.commit(broker.Put("/test/layout", []byte(`{"version":2}`)))
		foo := c.idle("foo")
		e := foo.election("e")
		c.check(e.Start())
		foo.start()
		if err := foo.ended(); !errors.Is(err, ErrLayout) || e.IsRunning() {
			c.Errorf("%v; running: %t", err, e.IsRunning())
		}
		c.wantLine("e")
		c.commit(broker.Put("/test/layout", []byte(`{"version":`))) // one that cannot be decoded stops nobody
		bar := c.member("bar").join("e")
		c.wantLine("e", "bar")
		c.wantLeader(bar, true)
	})
}

func TestElection_L03_TheEarliestEntryLeadsAndLivesWithItsSession(t *testing.T) {
	inCluster(t, func(c *cluster) {
		z, a := c.member("z"), c.member("a")
		first, second := z.join("e"), a.join("e")
		c.wantLine("e", "z", "a")
		c.wantLeader(first, true)
		c.wantLeader(second, false)
		infos, err := List(c.Context(), c.broker, "test")
		c.check(err)
		if got := infos[0].Candidates[0].Session; got != z.session().ID() {
			c.Errorf("the entry lives with session %x, not with %x", got, z.session().ID())
		}
		for name, want := range map[string]string{"a": "a", "z": `{"candidate":"z","leads":true}`} {
			kv, err := c.broker.Get(c.Context(), "/test/elections/e/"+name)
			c.check(err)
			if string(kv.Value) != want {
				c.Errorf("the entry of %s says %q, want %q", name, kv.Value, want)
			}
		}
	})
}

func TestElection_L04_AFollowerIgnoresARefresh(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		foo.join("e")
		bar.join("e")
		before := bar.counts.calls.Load()
		entry := bar.space.Candidate("e", "foo")
		for range 3 {
			c.commit(broker.PutSession(entry, []byte("again"), foo.session().ID()))
			c.sleep(time.Second)
		}
		if n := bar.counts.calls.Load() - before; n != 0 {
			c.Errorf("the follower made %d calls", n)
		}
		if bar.follows() != "foo" || foo.watches() != "foo" {
			c.Errorf("bar watches %q, foo watches %q", bar.follows(), foo.watches())
		}
	})
}

func TestElection_L04_ALeaderWhoseEntryIsDeletedStepsDownAndJoinsAtTheEnd(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.noted()
		c.deleteEntry("e", "foo")
		c.sleep(time.Second)
		c.wantLine("e", "bar", "foo")
		c.wantLeader(first, false)
		c.wantLeader(second, true)
		if got := first.CurrentLeader(); got != "bar" {
			c.Errorf("foo thinks that %q leads", got)
		}
		if got := c.noted(); !slices.Contains(got, "foo unelected "+ErrDeposed.Error()) {
			c.Errorf("happened: %q", got)
		}
		// A follower notices it when it lists the queue.
		c.deleteEntry("e", "foo")
		c.check(second.Resign(c.Context()))
		c.sleep(time.Second)
		if got := c.queue("e"); len(got) != 2 {
			c.Errorf("in the queue: %q", got)
		}
	})
}

func TestElection_L05_EveryTermHasOneElectedAndOneUnelected(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.happened("foo elected", "foo leader foo", "bar leader foo")
		c.check(first.Resign(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(second, true)
		got := c.noted()
		slices.Sort(got) // two members at once
		want := []string{"bar elected", "bar leader bar", "foo leader bar", "foo unelected the leader resigned"}
		if !slices.Equal(got, want) {
			c.Errorf("happened: %q", got)
		}
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		c.happened("bar unelected the election was stopped", "foo elected", "foo leader foo")
	})
}

func TestElection_L06_TheAnswersNeedNoNetwork(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.election("e")
		if e.IsRunning() || e.IsLeader() || e.CurrentLeader() != "" {
			c.Error("before the start")
		}
		c.check(e.Start())
		c.sleep(time.Second)
		if !e.IsRunning() || !e.IsLeader() || e.CurrentLeader() != "foo" {
			c.Error("while leading")
		}
		foo.faults.Freeze()
		// The machine is suspended: its clock has gone on, no timer has fired.
		foo.skew.Store(int64(time.Minute))
		c.wantLeader(e, false)
		if _, ok := e.Term(); ok {
			c.Error("there is a term")
		}
		foo.faults.Thaw()
		c.sleep(time.Minute)
		c.wantLeader(e, true)
	})
}

func TestElection_L07_StopHandsOverAtOnce(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.lead(first)
		c.lead(second)
		c.sleep(time.Second)
		began := time.Now()
		c.check(first.Stop(c.Context()))
		c.sleep(500 * time.Millisecond)
		c.wantLeader(second, true)
		if took := time.Since(began); took > time.Second {
			c.Errorf("it took %v", took)
		}
	})
}

func TestElection_L08_ABrokerThatIsAwayEndsNoCandidacy(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.join("e")
		c.lead(e)
		c.noted()
		before := c.term(e)
		foo.faults.Cut()
		c.sleep(time.Minute)
		c.wantLeader(e, false)
		if !e.IsRunning() {
			c.Error("it runs no longer")
		}
		got := c.noted()
		for _, want := range []string{"foo unelected the session was lost", "foo error " + broker.ErrUnavailable.Error()} {
			if !slices.Contains(got, want) {
				c.Errorf("%q did not happen: %q", want, got)
			}
		}
		foo.faults.Heal()
		c.sleep(time.Minute)
		if after := c.term(e); after.Token <= before.Token {
			c.Errorf("%v after %v", after, before)
		}
	})
}

func TestElection_L09_AWriteOfAnOldTermIsRefused(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		old := c.term(first)
		write := func(e *Election, term Term) error {
			_, err := e.Commit(c.Context(), term, broker.Txn{Then: []broker.Op{broker.Put("/test-data", []byte(term.String()))}})
			return err
		}
		c.check(write(first, old))
		c.check(first.Resign(c.Context()))
		c.sleep(time.Second)
		now := c.term(second)
		if now.Token <= old.Token {
			c.Errorf("%v after %v", now, old)
		}
		c.check(write(second, now))
		c.wantErr("the old term's write", write(first, old), ErrNotLeader)
		// Nor does it help to lead again, or that its own condition fails.
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantErr("the old term's write in a new one", write(first, old), ErrNotLeader)
		r, err := first.Commit(c.Context(), c.term(first), broker.Txn{If: []broker.Cond{broker.Absent("/test-data")},
			Else: []broker.Op{broker.Read("/test-data")}})
		if err != nil || r.OK || len(r.Reads) != 1 || string(r.Reads[0].Value) != now.String() {
			c.Errorf("a condition of the caller's own: %+v, %v", r, err)
		}
	})
}

func TestElection_L10_FooBarAndQuux(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar, quux := c.member("foo"), c.member("bar"), c.member("quux")
		quux.ignoring = true
		ef, eb, eq := foo.join("e"), bar.join("e"), quux.join("e")
		c.happened("foo elected", "foo leader foo", "bar leader foo")
		if bar.follows() != "foo" || quux.follows() != "bar" {
			c.Errorf("bar watches %q, quux watches %q", bar.follows(), quux.follows())
		}
		c.check(eb.Stop(c.Context()))
		c.sleep(time.Second)
		if quux.follows() != "foo" {
			c.Errorf("quux watches %q", quux.follows())
		}
		c.happened()
		c.check(ef.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(eq, true)
		c.happened("foo unelected the election was stopped", "quux elected")
	})
}

// One of a thousand leads, and the one behind it is told that it is next.
func TestElection_AChangeOfLeaderWakesTwoOfAThousand(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var nodes []*node
		var elections []*Election
		candidates := 1000
		if zksuite.On() || testing.Short() {
			candidates = 60 // all of it takes real time, or the race detector counts each step
		}
		for i := range candidates {
			n := c.member(fmt.Sprintf("c%04d", i))
			n.ignoring = true
			e := n.election("e")
			c.check(e.Start())
			c.sleep(100 * time.Millisecond)
			nodes, elections = append(nodes, n), append(elections, e)
		}
		c.sleep(time.Second)
		total := func() (calls, woken int64) {
			for _, n := range nodes {
				calls += n.counts.calls.Load()
				woken += n.counts.woken.Load()
			}
			return calls, woken
		}
		for i := range 10 {
			calls, woken := total()
			c.check(elections[i].Stop(c.Context()))
			c.settle()
			c.wantLeader(elections[i+1], true)
			callsNow, wokenNow := total()
			// The deletion; the note that the next one leads, the watch of its entry, and two of who is told.
			if callsNow-calls > 5 || wokenNow-woken != 2 {
				c.Errorf("a change of leader cost %d calls and woke %d", callsNow-calls, wokenNow-woken)
			}
		}
	})
}

func TestObserve_FollowsWhoLeads(t *testing.T) {
	inCluster(t, func(c *cluster) {
		stop := c.observe("e")
		_, _, first, _ := c.pair()
		if l, err := first.Leader(c.Context()); err != nil || l.Leader != "foo" {
			c.Errorf("Leader: %+v, %v", l, err)
		}
		asked, err := RequestResign(c.Context(), c.broker, "test", "e")
		if err != nil || asked.Leader != "foo" {
			c.Errorf("RequestResign: %+v, %v", asked, err)
		}
		c.sleep(time.Second)
		c.wantLine("e", "bar", "foo")
		if got := c.noted(); !slices.Contains(got, "foo unelected the leader resigned") {
			c.Errorf("happened: %q", got)
		}
		if got := stop(); !slices.Equal(got, []string{"", "foo", "bar"}) {
			c.Errorf("seen: %q", got)
		}
		if _, err := RequestResign(c.Context(), c.broker, "test", "nobody"); !errors.Is(err, ErrNoLeader) {
			c.Errorf("an election without anyone: %v", err)
		}
	})
}

func TestRequestResign_SaysSoWhenNobodyWasAsked(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, e, _ := c.pair()
		late := &resigning{Broker: c.broker, first: func() { c.check(e.Stop(c.Context())) }}
		if l, err := RequestResign(c.Context(), late, "test", "e"); !errors.Is(err, ErrNotLeader) {
			c.Errorf("the leader left before it was asked: %+v, %v", l, err)
		}
		c.sleep(time.Second)
		c.wantLine("e", "bar")
		if got := c.noted(); slices.Contains(got, "bar unelected the leader resigned") {
			c.Errorf("the next one was asked: %q", got)
		}
	})
}

// resigning is a broker that does something before it commits.
type resigning struct {
	broker.Broker
	first func()
}

// Commit implements broker.Broker.
func (r *resigning) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	r.first()
	return r.Broker.Commit(ctx, txns...)
}

func TestResigning_ANameThatLooksLikeARequestIsNone(t *testing.T) {
	name := `{"resign":true}`
	if noteOf(broker.KV{Key: "/test/elections/e/" + name, Value: []byte(name)}).Resign {
		t.Error("a candidate's name is taken for a request")
	}
	if !noteOf(broker.KV{Key: "/test/elections/e/" + name, Value: note{Candidate: name, Resign: true}.encode()}).Resign {
		t.Error("a request is not taken for one")
	}
}

func TestChanges_YieldsTheState(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.election("e")
		ctx, cancel := context.WithCancel(c.Context())
		last := make(chan Change, 1)
		go func() {
			var change Change
			for change = range e.Changes(ctx) {
				if change.Term.Token != 0 && change.Leader == "foo" {
					cancel()
				}
			}
			last <- change
		}()
		c.check(e.Start())
		if got := <-last; !got.Running || got.Leader != "foo" {
			c.Errorf("%+v", got)
		}
	})
}

// Who listens learns of every leader, wherever it is in line, and when those ahead of it are as they were.
func TestElection_L05_WhoListensLearnsOfEveryLeaderWhereverInLine(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const members = 6
		var all []*Election
		for i := range members {
			all = append(all, c.member(fmt.Sprint("m", i)).join("e"))
		}
		c.sleep(time.Second)
		c.noted()
		for leader := range members - 2 {
			c.check(all[leader].Stop(c.Context()))
			c.sleep(5 * time.Second)
			want := []string{fmt.Sprintf("m%d elected", leader+1), fmt.Sprintf("m%d unelected the election was stopped", leader)}
			for i := leader + 1; i < members; i++ {
				want = append(want, fmt.Sprintf("m%d leader m%d", i, leader+1))
			}
			slices.Sort(want)
			got := c.noted()
			if slices.Sort(got); !slices.Equal(got, want) {
				c.Errorf("as m%d has left: %q, want %q", leader, got, want)
			}
		}
	})
}

// A follower far behind learns of the leader after its connection is back, and once.
func TestElection_L05_WhoWasCutOffLearnsOfTheLeaderOnce(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first := c.member("first").join("e")
		second := c.member("second").join("e")
		c.member("third").join("e")
		last := c.member("last")
		e := last.join("e")
		c.sleep(time.Second)
		c.noted()
		last.faults.Cut()
		c.check(first.Stop(c.Context()))
		c.sleep(2 * time.Second)
		last.faults.Heal()
		c.sleep(5 * time.Second)
		if told := count(c.noted(), "last leader second"); told != 1 || e.CurrentLeader() != "second" {
			c.Errorf("it was told %d times, and knows of %q", told, e.CurrentLeader())
		}
		c.check(second.Stop(c.Context()))
		c.sleep(5 * time.Second)
		if told := count(c.noted(), "last leader third"); told != 1 {
			c.Errorf("it was told %d times of the next", told)
		}
	})
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
