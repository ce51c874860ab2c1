package election

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/internal/invalid"
)

func TestElection_L07_StopLeavesNothingOfAJoinInFlight(t *testing.T) {
	for name, plan := range map[string]string{
		"the request is late":   "late 5s on commit below \"/test/elections/\" call 1",
		"the reply is lost":     "lose-reply 10s on commit below \"/test/elections/\" call 1",
		"the request is lost":   "lose-request 10s on commit below \"/test/elections/\" call 1",
		"the request is slow":   "delay-request 500ms on commit below \"/test/elections/\" call 1",
		"late and then no read": "late 5s on commit below \"/test/elections/\" call 1\nrefuse on commit below \"/test/elections/\" call 2",
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				foo, bar := c.member("foo"), c.member("bar")
				first, second := foo.election("e"), bar.election("e")
				c.sleep(time.Second) // until there are sessions
				foo.faults.Use(faulty.MustParse(plan))
				c.check(first.Start())
				c.settle()
				began := time.Now()
				c.check(first.Stop(c.Context()))
				if took := time.Since(began); took > foo.timing.Try {
					c.Errorf("Stop took %v", took)
				}
				c.sleep(7 * time.Second)
				c.wantLine("e")
				c.check(second.Start())
				c.sleep(time.Second)
				c.wantLeader(second, true)
				if foo.faults.Struck()[0] != 1 {
					c.Error("the fault did not happen")
				}
			})
		})
	}
}

func TestElection_AJoinThatIsLateDoesNotLeadTwice(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		e := foo.election("e")
		c.settle()
		foo.faults.Use(faulty.MustParse("late 5s on commit below \"/test/elections/\" call 1"))
		c.check(e.Start())
		c.lead(e)
		c.sleep(2 * time.Second)
		c.wantLeader(e, true)
		c.check(e.Stop(c.Context()))
		c.check(e.Start())
		c.sleep(time.Second)
		c.wantLeader(e, true) // it does not wait for what is late
		c.sleep(10 * time.Second)
		c.wantLine("e", "foo")
		c.check(e.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLine("e")
	})
}

func TestElection_L07_StopReturnsWhenTheBrokerDoesNotAnswer(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		c.lead(first)
		c.lead(second)
		c.sleep(time.Second)
		foo.faults.Freeze()
		began := time.Now()
		c.check(first.Stop(c.Context()))
		if took := time.Since(began); took > foo.timing.Try+c.slack() {
			c.Errorf("Stop took %v", took)
		}
		c.wantLeader(first, false)
		// The broker is back before the session is lost: the entry goes all the same.
		c.sleep(time.Second)
		foo.faults.Thaw()
		c.sleep(3 * time.Second)
		c.wantLine("e", "bar")
		c.wantLeader(second, true)
	})
}

func TestElection_ASessionThatIsRevokedIsReplaced(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		c.check(c.broker.Revoke(c.Context(), foo.session().ID()))
		c.sleep(500 * time.Millisecond)
		c.wantLeader(first, false)
		c.sleep(5 * time.Second)
		c.wantLeader(second, true)
		c.wantLine("e", "bar", "foo")
		terms := 0
		for _, line := range c.noted() {
			if line == "foo elected" || line == "foo unelected "+ErrDeposed.Error() {
				terms++
			}
		}
		if terms != 2 {
			c.Errorf("%d events about foo's term", terms)
		}
	})
}

func TestElection_L06_TheOldLeaderHasStoppedBeforeANewOneLeads(t *testing.T) {
	for name, fault := range map[string]func(*node){
		"cut":    func(n *node) { n.faults.Cut() },
		"frozen": func(n *node) { n.faults.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				foo, bar := c.member("foo"), c.member("bar")
				first, second := foo.join("e"), bar.join("e")
				var stopped, began time.Time
				var cause error
				c.lead(first, slowly, func(ctx context.Context) { stopped, cause = time.Now(), context.Cause(ctx) })
				c.lead(second, func(context.Context) { began = time.Now() }, slowly)
				c.sleep(time.Second)
				fault(foo)
				c.sleep(30 * time.Second)
				if stopped.IsZero() || !stopped.Before(began) {
					c.Errorf("the old one stopped at %v, the new one began at %v", stopped, began)
				}
				if !errors.Is(cause, ErrLost) {
					c.Errorf("the cause is %v", cause)
				}
				c.wantLeader(first, false)
				c.wantLeader(second, true)
				foo.faults.Heal()
				foo.faults.Thaw()
				c.sleep(30 * time.Second)
				c.wantLine("e", "bar", "foo")
			})
		})
	}
}

func TestElection_TheEntryIsKeptUntilTheFunctionHasReturned(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.lead(second)
		c.lead(first, slowly)
		c.sleep(time.Second)
		c.check(first.Resign(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(second, true)
		c.wantLine("e", "bar", "foo")
	})
}

func TestMember_AFunctionThatDoesNotReturnIsFenced(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		release, led := c.leadStuck(first)
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		c.wantErr("Stop", first.Stop(ctx), context.DeadlineExceeded)
		c.wantLine("e", "foo", "bar")
		foo.stop()
		c.wantErr("Run", foo.ended(), ErrAbandoned)
		if foo.fenced.Load() != 1 {
			c.Errorf("fenced %d times", foo.fenced.Load())
		}
		c.wantLeader(second, false)
		c.sleep(15 * time.Second)
		c.wantLeader(second, true)
		release()
		c.wantErr("Lead", <-led, ErrStopped)
	})
}

func TestMember_EndsBesideAFunctionLeftFromALostSession(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo := c.member("foo")
		first := foo.join("e")
		release, led := c.leadStuck(first)
		foo.faults.Cut()
		c.sleep(30 * time.Second)
		foo.faults.Heal()
		c.sleep(10 * time.Second)
		// It does not join again while it could not lead.
		c.wantLine("e")
		if foo.fenced.Load() != 1 || !first.IsRunning() {
			c.Errorf("fenced %d times; running: %t", foo.fenced.Load(), first.IsRunning())
		}
		began := time.Now()
		foo.stop()
		c.wantErr("Run", foo.ended(), ErrAbandoned)
		if took := time.Since(began); took > foo.timing.TTL {
			c.Errorf("Run took %v to end", took)
		}
		release()
		<-led
	})
}

func TestElection_NoTermBeginsLateInASession(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, bar, first, second := c.pair()
		bar.faults.Use(faulty.MustParse("refuse on keepalive"))
		for s := bar.session(); s.MayStart(); {
			c.sleep(100 * time.Millisecond)
		}
		c.check(first.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(second, false)
		bar.faults.Use(nil)
		c.sleep(time.Second)
		c.wantLeader(second, true)
	})
}

func TestElection_ANameThatIsTakenIsWaitedFor(t *testing.T) {
	inCluster(t, func(c *cluster) {
		one, other := c.member("foo"), c.member("foo")
		first := one.join("e")
		c.noted()
		second := other.join("e")
		c.sleep(time.Minute)
		c.happened("foo error " + ErrNameTaken.Error())
		c.check(first.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(second, true)
	})
}

func TestMember_StandsInSeveralElectionsWithOneSession(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		fa, ba := foo.join("a"), bar.join("a")
		bb, fb := bar.join("b"), foo.join("b")
		c.wantLeader(fa, true)
		c.wantLeader(bb, true)
		foo.stop()
		c.check(foo.ended())
		c.sleep(time.Second)
		c.wantLine("a", "bar")
		c.wantLine("b", "bar")
		c.wantLeader(ba, true)
		if fb.IsRunning() || !errors.Is(fb.Start(), ErrStopped) {
			c.Error("it runs without its member")
		}
	})
}

func TestElection_WatchesThatBreakAndHistoryThatIsGone(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar := c.member("foo"), c.member("bar")
		plan := faulty.MustParse("break on batch chance 0.5\ncompact on watch chance 0.3\nrefuse on get,list,commit chance 0.2")
		foo.faults.Use(plan)
		bar.faults.Use(plan)
		first, second := foo.join("e"), bar.join("e")
		c.lead(first)
		c.lead(second)
		for i := range 30 {
			c.sleep(20 * time.Second)
			if first.IsLeader() == second.IsLeader() || c.leading() != 1 {
				c.Errorf("round %d: foo leads: %t, bar leads: %t, %d functions", i, first.IsLeader(), second.IsLeader(), c.leading())
			}
			_, err := RequestResign(c.Context(), c.broker, "test", "e")
			c.check(err)
		}
		elected := strings.Count(strings.Join(c.noted(), "\n"), " elected")
		if elected < 30 {
			c.Errorf("%d terms after 30 resignations", elected)
		}
	})
}

func TestLead_EndsWithItsFunctionItsContextOrTheElection(t *testing.T) {
	inCluster(t, func(c *cluster) {
		e := c.member("foo").join("e")
		enough := errors.New("enough")
		before := c.term(e)
		c.wantErr("a function that returns", e.Lead(c.Context(), func(context.Context, Term) error { return enough }), enough)
		c.wantLine("e")
		c.wantErr("after it has left", e.Lead(c.Context(), func(context.Context, Term) error { return nil }), ErrStopped)
		c.sleep(time.Minute)
		c.wantLine("e")
		c.check(e.Start())
		c.sleep(time.Second)
		if after := c.term(e); after.Token <= before.Token {
			c.Error("the leadership was not given up")
		}
		var wrong *invalid.Input
		if err := e.Lead(c.Context(), nil); !errors.As(err, &wrong) || wrong.Field != "run" {
			c.Errorf("without a function: %v", err)
		}
		c.wantLine("e")
		c.check(e.Start())
		ctx, cancel := context.WithTimeoutCause(c.Context(), time.Second, enough)
		defer cancel()
		err := e.Lead(ctx, func(ctx context.Context, _ Term) error {
			c.wantErr("a second Lead", e.Lead(ctx, nil), ErrTwice)
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, enough) {
			c.Errorf("a context that ends: %v", err)
		}
		c.sleep(time.Second)
		c.wantLine("e")
		c.check(e.Start())
		led := make(chan error)
		go func() {
			led <- e.Lead(c.Context(), func(ctx context.Context, _ Term) error { <-ctx.Done(); return context.Cause(ctx) })
		}()
		c.sleep(time.Second)
		c.check(e.Stop(c.Context()))
		c.wantErr("a stop", <-led, ErrStopped)
	})
}

func TestElection_L07_AStandThatIsStoppedBeforeItBeginsClearsUp(t *testing.T) {
	inCluster(t, func(c *cluster) {
		e := c.member("foo").join("e")
		c.wantLine("e", "foo")
		e.requestStop()
		c.check(e.Start())
		c.check(e.Stop(c.Context()))
		c.wantLine("e")
	})
}

func TestElection_ManyStartAndStopAtOnce(t *testing.T) {
	inCluster(t, func(c *cluster) {
		e := c.member("foo").election("e")
		c.lead(e)
		var calling sync.WaitGroup
		for i := range 8 {
			calling.Go(func() {
				for j := range 20 {
					if (i+j)%2 == 0 {
						c.check(e.Start())
					} else {
						c.check(e.Stop(context.Background()))
					}
				}
			})
		}
		calling.Wait()
		c.check(e.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLine("e")
	})
}

func TestElection_RandomFaultsNeverMakeTwoLead(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var nodes []*node
		var tokens []broker.Revision
		for i, name := range []string{"foo", "bar", "quux"} {
			n := c.member(name)
			plan := faulty.MustParse("lose-reply 2s on commit,keepalive chance 0.1\nlate 3s on commit chance 0.1\nbreak on batch chance 0.1\ndelay-reply 300ms chance 0.3")
			plan.Seed = uint64(i)
			n.faults.Use(plan)
			c.lead(n.join("e"), func(context.Context) {
				infos, err := List(context.Background(), c.broker, "test")
				if err == nil && len(infos) > 0 {
					tokens = append(tokens, broker.Revision(infos[0].Candidates[0].Token))
				}
			}, slowly)
			nodes = append(nodes, n)
		}
		for i := range 60 {
			n := nodes[i%len(nodes)]
			switch i % 4 {
			case 0:
				n.faults.Freeze()
			case 1:
				n.faults.Cut()
			case 2:
				n.skew.Add(int64(20 * time.Second)) // its machine was suspended
			case 3:
				_, _ = RequestResign(c.Context(), c.broker, "test", "e")
			}
			c.sleep(time.Duration(3+i%17) * time.Second)
			n.faults.Heal()
			n.faults.Thaw()
		}
		for _, n := range nodes {
			n.faults.Use(nil)
		}
		c.sleep(time.Minute)
		if c.leading() != 1 || len(c.queue("e")) != 3 {
			c.Errorf("in the end %d lead; in the queue: %q", c.leading(), c.queue("e"))
		}
		if len(tokens) < 5 || !slices.IsSorted(tokens) {
			c.Errorf("the tokens do not rise: %d", tokens)
		}
	})
}

func TestMember_ASessionThatWasLostHoldsNothingUpOnceTheBrokerIsBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, _, first, second := c.pair()
		c.lead(first)
		c.lead(second)
		c.sleep(time.Second)
		c.wantLeader(first, true)
		foo.faults.Cut()
		for foo.session().Context().Err() == nil {
			c.sleep(10 * time.Millisecond)
		}
		c.sleep(200 * time.Millisecond) // its function has returned, which the broker cannot know
		c.wantLeader(second, false)
		foo.faults.Heal()
		c.sleep(2 * time.Second) // less than the session has left
		c.wantLeader(second, true)
	})
}
