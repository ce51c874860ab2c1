package election

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
)

// TestElection_ARequestBetweenJoiningAndListingIsNotLost is about a leader that is
// asked to resign before it knows that it is one.
func TestElection_ARequestBetweenJoiningAndListingIsNotLost(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		first, second := foo.election("e"), bar.election("e")
		c.sleep(time.Second) // until there are sessions
		foo.faults.Use(faulty.MustParse("delay-request 1s on list"))
		c.check(first.Start())
		c.sleep(500 * time.Millisecond)
		c.check(second.Start())
		c.settle()
		asked, err := RequestResign(c.Context(), c.broker, "test", "e")
		if err != nil || asked.Leader != "foo" {
			c.Fatalf("RequestResign: %+v, %v", asked, err)
		}
		c.sleep(10 * time.Second)
		c.wantLine("e", "bar", "foo")
		c.wantLeader(first, false)
		c.wantLeader(second, true)
	})
}

// TestElection_L09_AStandThatFollowsAnotherHasATokenOfItsOwn is about an entry
// that Stop could not delete.
func TestElection_L09_AStandThatFollowsAnotherHasATokenOfItsOwn(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		old := c.term(first)
		foo.faults.Freeze()
		c.check(first.Stop(c.Context()))
		c.check(first.Start())
		foo.faults.Thaw()
		c.sleep(3 * time.Second)
		c.wantLine("e", "bar", "foo")
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		if now := c.term(first); now.Token <= old.Token {
			c.Errorf("%v after %v", now, old)
		}
		_, err := first.Commit(c.Context(), old, broker.Txn{Then: []broker.Op{broker.Put("/test-data", nil)}})
		if !errors.Is(err, ErrNotLeader) {
			c.Errorf("the old term's write in a new one: %v", err)
		}
	})
}

// TestElection_ADeletionThatIsLateDoesNotMakeTwoLead is about the deletion of a
// candidacy's entry that arrives when the next candidacy leads.
func TestElection_ADeletionThatIsLateDoesNotMakeTwoLead(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		c.lead(second, slowly)
		foo.faults.Use(faulty.MustParse("late 3s on commit below \"/test/elections/\" call 1"))
		first.requestStop()
		c.settle()
		c.check(first.Start())
		c.lead(first, slowly) // the cluster counts overlaps
		c.sleep(20 * time.Second)
		c.wantLine("e", "bar", "foo")
	})
}

// TestElection_L07_AnotherStandForgetsNoJoinInFlight is about a join that is late
// by more than the candidacy that it was for.
func TestElection_L07_AnotherStandForgetsNoJoinInFlight(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		first, second := foo.election("e"), bar.election("e")
		c.sleep(time.Second)
		foo.faults.Use(faulty.MustParse("late 20s on commit below \"/test/elections/\" call 1"))
		c.check(first.Start())
		c.sleep(time.Second)
		c.wantLeader(first, true)
		first.requestStop()
		c.check(first.Start())
		c.sleep(time.Second)
		c.wantLeader(first, true)
		c.check(first.Stop(c.Context()))
		c.wantLine("e")
		c.sleep(30 * time.Second) // what was late has come
		c.wantLine("e")
		c.check(second.Start())
		c.sleep(time.Second)
		c.wantLeader(second, true)
	})
}

func TestElection_ResignGivesUpThePlaceOfAJoinInFlight(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		first, second := foo.election("e"), bar.election("e")
		c.sleep(time.Second)
		foo.faults.Use(faulty.MustParse("lose-reply 500ms on commit below \"/test/elections/\" call 1"))
		c.check(first.Start())
		c.settle()
		c.check(second.Start())
		c.settle()
		c.wantLine("e", "foo", "bar")
		c.check(first.Resign(c.Context()))
		c.sleep(3 * time.Second)
		c.wantLine("e", "bar", "foo")
		c.wantLeader(second, true)
	})
}

func TestLead_AFunctionThatPanicsOrExitsGivesUp(t *testing.T) {
	for name, end := range map[string]func(){
		"panic": func() { panic("of the function's own") },
		"exit":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				_, _, first, second := c.pair()
				go func() {
					defer func() { _ = recover() }() // as a server does for each request
					_ = first.Lead(context.Background(), func(context.Context, Term) error {
						end()
						return nil
					})
				}()
				c.sleep(time.Second)
				c.wantLeader(first, false)
				c.wantLeader(second, true)
				c.wantLine("e", "bar")
			})
		})
	}
}

func TestLead_EndsWithTheStandThatItBeganIn(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.join("e")
		led, returned, terms := make(chan struct{}), make(chan error, 1), 0
		go func() {
			returned <- e.Lead(c.Context(), func(ctx context.Context, _ Term) error {
				terms++
				<-ctx.Done()
				<-led
				return nil
			})
		}()
		c.sleep(time.Second)
		e.requestStop()
		c.check(e.Start())
		close(led)
		c.sleep(3 * time.Second)
		select {
		case err := <-returned:
			if !errors.Is(err, ErrStopped) {
				c.Errorf("Lead: %v", err)
			}
		default:
			c.Errorf("Lead goes on after a stop, in its term number %d", terms)
			c.check(e.Stop(c.Context()))
			<-returned
		}
		c.wantLine("e", "foo") // the new one
	})
}

func TestLead_AWriteThatWasRefusedDoesNotEndIt(t *testing.T) {
	inCluster(t, func(c *cluster) {
		e := c.member("foo").join("e")
		returned, terms := make(chan error, 1), 0
		go func() {
			returned <- e.Lead(c.Context(), func(ctx context.Context, term Term) error {
				terms++
				for {
					// Another context, as in work that is to be finished.
					_, err := e.Commit(context.Background(), term, broker.Txn{})
					if err != nil {
						return err
					}
					time.Sleep(time.Second)
				}
			})
		}()
		c.sleep(1500 * time.Millisecond)
		c.deleteEntry("e", "foo")
		c.sleep(10 * time.Second)
		if terms != 2 || len(returned) > 0 {
			c.Errorf("%d terms", terms)
		}
		if len(returned) > 0 {
			c.Errorf("Lead: %v", <-returned)
			return
		}
		stopped := make(chan error)
		go func() { stopped <- e.Stop(context.Background()) }()
		c.settle()
		c.deleteEntry("e", "foo")
		<-stopped
		<-returned
	})
}

func TestElection_L07_StopSaysSoWhenAFunctionStillRuns(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.join("e")
		release, led := c.leadStuck(e)
		foo.faults.Cut()
		c.sleep(30 * time.Second)
		foo.faults.Heal()
		c.sleep(3 * time.Second)
		if err := e.Stop(c.Context()); !errors.Is(err, ErrAbandoned) {
			c.Errorf("Stop: %v, while a function runs that led", err)
		}
		release()
		<-led
		c.check(e.Stop(c.Context()))
	})
}

func TestElection_L07_StopWaitsForTheBrokerAfterACallback(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e, err := foo.Election("e", Events{Unelected: func(Term, error) { time.Sleep(3 * time.Second) }})
		c.check(err)
		c.check(e.Start())
		c.sleep(time.Second)
		foo.faults.Use(faulty.MustParse("delay-request 50ms on commit"))
		c.check(e.Stop(c.Context()))
		c.wantLine("e")
	})
}

func TestObserve_YieldsNobodyWhoNeverLed(t *testing.T) {
	inCluster(t, func(c *cluster) {
		for _, name := range []string{"a", "b", "c"} {
			c.member(name).join("e")
		}
		stop := c.observe("e")
		c.sleep(time.Second)
		// All at one revision.
		c.commit(broker.DeleteTree("/test/elections/e/"))
		c.settle()
		got := stop()
		if n := min(len(got), 2); !slices.Equal(got[:n], []string{"a", ""}) {
			c.Errorf("seen: %q", got)
		}
	})
}

// While the broker is away nobody knows who leads, and whoever follows is told when it is known again.
func TestObserve_TellsTheLeaderAgainAfterAnOutage(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.pair()
		away := faulty.Wrap(c.connect(), nil)
		seen, errs := make(chan Leadership, 10), 0
		ctx, cancel := context.WithCancel(c.Context())
		var following sync.WaitGroup
		following.Go(func() {
			for l, err := range Observe(ctx, away, "test", "e") {
				if err != nil {
					errs++
				} else {
					seen <- l
				}
			}
		})
		c.settle()
		away.Cut()
		c.sleep(10 * time.Second)
		away.Heal()
		c.sleep(10 * time.Second)
		cancel()
		following.Wait()
		c.check(away.Close())
		if len(seen) != 2 || errs == 0 {
			c.Errorf("%d leaders and %d errors, want the leader before and after some errors", len(seen), errs)
			return
		}
		if first, again := <-seen, <-seen; first != again || first.Leader != "foo" {
			c.Errorf("%+v, and then %+v", first, again)
		}
	})
}

func TestElection_AWatchThatIsRefusedIsTriedLessAndLessOften(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar, _, _ := c.pair()
		bar.faults.Use(faulty.MustParse("refuse on watch"))
		foo.faults.Use(faulty.MustParse("refuse on watch"))
		c.noted()
		before := bar.counts.calls.Load() + foo.counts.calls.Load()
		// The watches in use have to break for that.
		foo.faults.Cut()
		bar.faults.Cut()
		foo.faults.Heal()
		bar.faults.Heal()
		c.sleep(time.Minute)
		calls := bar.counts.calls.Load() + foo.counts.calls.Load() - before
		if errs := len(c.noted()); errs > 150 || calls > 150 {
			c.Errorf("%d errors and %d calls in a minute", errs, calls)
		}
	})
}

func TestElection_L05_ALeaderThatStaysIsNoEvent(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, _, second := c.pair()
		c.noted()
		c.check(second.Resign(c.Context()))
		c.sleep(time.Second)
		c.happened()
	})
}

func TestElection_L06_ARefusedWriteEndsTheTermWithoutTheWatch(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.join("e")
		term := c.term(e)
		foo.faults.Use(faulty.MustParse("stall on batch"))
		c.deleteEntry("e", "foo")
		c.sleep(time.Second)
		c.wantLeader(e, true) // it does not see the deletion
		if _, err := e.Commit(c.Context(), term, broker.Txn{}); !errors.Is(err, ErrNotLeader) {
			c.Errorf("Commit: %v", err)
		}
		if now, ok := e.Term(); ok && now == term {
			c.Error("the term goes on")
		}
		c.sleep(time.Second)
		if now := c.term(e); now.Token <= term.Token {
			c.Errorf("%v after %v", now, term)
		}
	})
}

func TestElection_AWatchThatHasGoneSilentHoldsNobodyUpForEver(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, bar, first, second := c.pair()
		bar.faults.Use(faulty.MustParse("stall on batch"))
		c.check(first.Stop(c.Context()))
		c.sleep(lookEvery * 3 / 2)
		c.wantLeader(second, true)
		c.deleteEntry("e", "bar")
		c.sleep(lookEvery * 3 / 2)
		c.wantLine("e", "bar")
	})
}
