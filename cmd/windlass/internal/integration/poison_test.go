package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// supervised are nodes that are restarted a second after they have died. Their handlers
// kill the node that runs the task "poison" once that has run for as long as fuse.
type supervised struct {
	*cluster
	fuse  time.Duration
	mu    sync.Mutex
	nodes map[string]*windlasstest.Node
	dead  []string
	died  chan string
	// renamed is true if what has died comes back under another name.
	renamed bool
	events  events.Node
}

func supervise(c *cluster, fuse time.Duration, names ...string) *supervised {
	s := &supervised{cluster: c, fuse: fuse, nodes: map[string]*windlasstest.Node{}, died: make(chan string, len(names))}
	for _, name := range names {
		s.startNew(name)
	}
	return s
}

func (s *supervised) startNew(name string) {
	s.start(name, func() *windlasstest.Node {
		return s.Start(name, windlass.Config{Handlers: map[string]windlass.NewHandler{windlass.AnyType: s.handler(name)}, Events: s.events})
	})
}

func (s *supervised) start(name string, start func() *windlasstest.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name] = start()
}

func (s *supervised) handler(name string) windlass.NewHandler {
	return windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
		if claim.ID() == "poison" {
			select {
			case <-time.After(s.fuse):
				s.kill(name)
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// kill kills a node.
func (s *supervised) kill(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, name)
	s.nodes[name].Kill()
	s.died <- name
}

// restart starts a node again that has died.
func (s *supervised) restart(name string) {
	if s.Advance(time.Second); s.renamed {
		s.startNew(name + "x")
	} else {
		s.start(name, s.nodes[name].Restart)
	}
}

// watch restarts what has died, for a time.
func (s *supervised) watch(during time.Duration) {
	for end := time.After(during); ; {
		select {
		case name := <-s.died:
			s.restart(name)
		case <-end:
			return
		}
	}
}

// blamed fails the test unless the poison, and nothing else, was set aside.
func (s *supervised) blamed(healthy int) {
	s.t.Helper()
	d := s.task("poison")
	if d.Status != windlass.StatusFailed || !strings.Contains(d.LastError(), "set aside: the process that ran it died") {
		s.t.Fatalf("it is %s after the deaths of %v: %s", d.Status, s.dead, d.LastError())
	}
	if e := s.explain("poison"); !strings.Contains(e.Why, "set aside: the process that ran it died") {
		s.t.Errorf("it is explained with %q", e.Why)
	}
	s.WaitUntil(time.Minute, "the others run", s.allRunning(healthy))
}

// What sleeps or is paused dies with its node as often as what runs, and kills none.
func TestPoison_O02_WhatDidNotRunIsNotToBlame(t *testing.T) {
	for _, how := range []string{"its type is paused", "it is paused", "it sleeps"} {
		t.Run(how, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				s := supervise(c, 0, "a", "b")
				c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "import"}})
				c.WaitFor(time.Minute, "t", windlass.StatusRunning)
				switch how {
				case "its type is paused":
					c.pauseType("import")
				case "it is paused":
					c.sendTask("t", statemachine.Pause)
				default:
					_, err := c.client.SendTask(t.Context(), "t", statemachine.SleepUntil(time.Now().Add(time.Hour/2)))
					c.must(err)
				}
				s.watch(15 * time.Second)
				for range 4 {
					s.kill(c.task("t").Node)
					s.watch(time.Minute)
				}
				died, err := operate.New(c.client).Deaths(t.Context())
				c.must(err)
				for _, d := range died {
					if d.Culprit != "" || len(d.Lost) != 0 {
						t.Errorf("the death of %s is said to be due to %q, and lists %v", d.Node, d.Culprit, d.Lost)
					}
				}
				if len(died) != 4 || c.startsOf("t") != 1 {
					t.Errorf("%d deaths are recorded, and it was started %d times", len(died), c.startsOf("t"))
				}
				if how == "its type is paused" {
					c.resumeType("import")
				} else {
					c.sendTask("t", statemachine.Run)
				}
				c.WaitFor(time.Minute, "t", windlass.StatusRunning)
				s.kill(c.task("t").Node)
				s.watch(time.Minute)
				c.wantStatus("t", windlass.StatusRunning)
				if e := c.explain("t"); len(e.Deaths) != 1 {
					t.Errorf("it is explained with %+v", e)
				}
			})
		})
	}
}

func TestPoison_O02_TheTaskThatKillsItsNodesIsFoundAmongThreeHundred(t *testing.T) {
	for _, fuse := range []time.Duration{time.Millisecond, 100 * time.Millisecond} {
		for _, before := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("it takes %v and comes %v after the others", fuse, before), func(t *testing.T) {
				inEach(t, func(t *testing.T, c *cluster) {
					s := supervise(c, fuse, "a", "b", "c")
					c.Advance(5 * time.Second)
					healthy := c.submit(299, windlass.Spec{})
					c.Advance(before)
					c.Submit(windlass.Submission{ID: "poison"})
					s.watch(3 * time.Minute)
					s.blamed(299)
					if len(s.dead) > 4 {
						t.Errorf("%d nodes died", len(s.dead))
					}
					for _, id := range healthy {
						text, h := c.historyOf(id)
						most := 2
						if before == 0 && strings.Count(text, "lost") <= 2 {
							most++ // it may move once while all are being placed
						}
						if h.Interruptions > most {
							t.Fatalf("%s was interrupted %d times: %s; the deaths: %s", id, h.Interruptions, inDetail(h), c.deathsInDetail())
						}
					}
				})
			})
		}
	}
}

// inDetail tells a history with times and reasons.
func inDetail(h statemachine.History) (text string) {
	for _, e := range h.Entries {
		text += fmt.Sprintf("\n  %s %s on %s: %s", e.At.Format("04:05.000"), e.Event, e.Node, e.Detail)
	}
	return text
}

// deathsInDetail tells of the deaths that are recorded.
func (c *cluster) deathsInDetail() (text string) {
	for _, d := range c.deaths() {
		text += fmt.Sprintf("\n  %s %s: %d claims, %d recent, culprit %q", d.At.Format("04:05.000"), d.Node, d.Claims, d.Recent, d.Culprit)
	}
	return text
}

func TestPoison_O02_OneThatTakesLongerIsFoundByElimination(t *testing.T) {
	for _, fuse := range []time.Duration{4 * time.Second, 20 * time.Second} {
		t.Run(fuse.String(), func(t *testing.T) {
			inMemory(t, func(t *testing.T, c *cluster) {
				s := supervise(c, fuse, "a", "b", "c")
				c.submit(59, windlass.Spec{})
				c.Submit(windlass.Submission{ID: "poison"})
				s.watch(15 * time.Minute)
				s.blamed(59)
			})
		})
	}
}

// If one node tries two suspects, both are as suspect as before when it dies.
func TestPoison_O02_TwoSuspectsAreTriedOnTwoNodes(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := supervise(c, 4*time.Second, "a", "c")
		c.submit(10, windlass.Spec{Node: "c"}) // which has its share with them
		c.WaitUntil(time.Minute, "all run", c.allRunning(10))
		c.cordon("c", "a is to have both suspects")
		c.Submit(windlass.Submission{ID: "poison"}, windlass.Submission{ID: "beside"})
		for _, when := range []string{"a has died", "a has died again"} {
			died := len(c.deaths())
			c.WaitUntil(time.Minute, when, func() bool { return len(c.deaths()) > died })
			s.restart(<-s.died)
		}
		s.startNew("b") // which has room for both
		c.uncordon("c")
		s.watch(3 * time.Minute)
		s.blamed(11)
		if len(s.dead) != 3 {
			t.Errorf("died: %v", s.dead)
		}
	})
}

// A death is told of twice: when it is seen, and when it is known which task is to blame. The
// nodes that it has killed are then not on probation.
func TestPoison_O02_ItIsToldWhoIsToBlameAndTheNodesAreExcused(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var told, blamed atomic.Int32
		s := &supervised{cluster: c, nodes: map[string]*windlasstest.Node{}, died: make(chan string, 2)}
		s.events.Died = func(d events.Death) {
			if told.Add(1); d.Culprit == "poison" {
				blamed.Add(1)
			}
		}
		s.startNew("a")
		s.startNew("b")
		c.submit(10, windlass.Spec{})
		c.Submit(windlass.Submission{ID: "poison"})
		for c.task("poison").Status != windlass.StatusFailed {
			s.watch(time.Second)
		}
		s.watch(2 * time.Second)
		s.blamed(10)
		if told.Load() < 4 || blamed.Load() < 1 || blamed.Load() > 2 {
			t.Errorf("after 3 deaths %d were told of, %d of them with the one to blame", told.Load(), blamed.Load())
		}
		for _, n := range c.nodes() {
			if !n.Probation.IsZero() {
				t.Errorf("%s is on probation until %v", n.Name, n.Probation)
			}
		}
	})
}

// Nobody else sees a node die that is alone: the process that follows it records that.
func TestPoison_O02_AFleetOfOneFindsIt(t *testing.T) {
	alone := func(c *cluster, fuse, during time.Duration) *supervised {
		s := supervise(c, fuse, "a")
		c.submit(30, windlass.Spec{})
		c.Submit(windlass.Submission{ID: "poison"})
		s.watch(during)
		s.blamed(30)
		return s
	}
	inEach(t, func(t *testing.T, c *cluster) {
		if s := alone(c, time.Millisecond, 3*time.Minute); len(s.dead) > 4 {
			t.Errorf("it died %d times", len(s.dead))
		}
	})
	for _, fuse := range []time.Duration{4 * time.Second, 20 * time.Second} {
		t.Run(fuse.String(), func(t *testing.T) {
			inMemory(t, func(t *testing.T, c *cluster) { alone(c, fuse, 40*time.Minute) })
		})
	}
}

// What had run for long before a node died that was alone is not started one by one.
func TestPoison_O02_AFleetOfOneIsBackAtOnce(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := supervise(c, 0, "a")
		old := c.submit(40, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(40))
		c.Advance(time.Minute)
		c.Submit(windlass.Submission{ID: "young"})
		c.WaitFor(time.Minute, "young", windlass.StatusRunning)
		s.kill("a")
		s.restart(<-s.died)
		c.WaitUntil(time.Minute, "the death is recorded", func() bool { return len(c.deaths()) == 1 })
		c.Advance(time.Second)
		if d := c.deaths()[0]; d.Claims != 41 || d.Recent != 1 || d.Lost[0].Task != "young" || !d.Restarted {
			t.Errorf("%+v", d)
		}
		for _, id := range append(old, "young") {
			c.wantStatus(id, windlass.StatusRunning)
		}
	})
}

// Nobody who lives sees nodes die that die together: each of those that are back tells of its own.
func TestPoison_O02_NodesThatDieAndReturnTogetherAreAllRecorded(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		names := []string{"a", "b", "c"}
		s := supervise(c, 0, names...)
		c.submit(30, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(30))
		c.Settle(time.Minute)
		for _, name := range names {
			s.kill(name)
		}
		for range names {
			s.restart(<-s.died)
		}
		c.WaitUntil(time.Minute, "all run", c.allRunning(30))
		c.WaitUntil(time.Minute, "all deaths are recorded and answered", func() bool {
			return !slices.ContainsFunc(c.deaths(), func(d events.Death) bool { return !d.Restarted }) && len(c.deaths()) == len(names)
		})
		claims := 0
		for _, d := range c.deaths() {
			claims += d.Claims
		}
		if claims != 30 {
			t.Errorf("%d claims ended with them: %+v", claims, c.deaths())
		}
	})
}

func TestPoison_O02_ANodeThatStopsWhileAnotherWaitsForItsNameHasNotDied(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		first := c.join("a")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(4))
		before := c.nodes()[0].Incarnation
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.newNode("a").Run(ctx) }()
		c.Advance(time.Second)
		c.must(first.Stop())
		c.WaitUntil(time.Minute, "the second has the name", func() bool { return len(c.nodes()) == 1 && c.nodes()[0].Incarnation != before })
		c.WaitFor(time.Minute, "task-000", windlass.StatusRunning)
		c.Advance(10 * time.Second)
		if d := c.deaths(); len(d) > 0 {
			t.Errorf("%+v", d)
		}
		stop()
		c.must(<-ended)
	})
}

func TestPoison_O02_ProcessesMayComeBackUnderOtherNames(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := supervise(c, time.Millisecond, "a", "b", "c")
		s.renamed = true
		c.Advance(5 * time.Second)
		c.submit(30, windlass.Spec{})
		c.Submit(windlass.Submission{ID: "poison"})
		s.watch(10 * time.Minute)
		s.blamed(30)
		if len(s.dead) > 16 {
			t.Errorf("%d nodes died", len(s.dead))
		}
	})
}

func TestPoison_O02_ARecordIsTakenBackWhateverWasLost(t *testing.T) {
	for _, lost := range []string{"lose-request", "lose-reply"} {
		inMemory(t, func(t *testing.T, c *cluster) {
			a := c.join("a")
			c.join("b")
			c.Settle(time.Minute)
			a.Partition()
			c.WaitUntil(time.Minute, "its death is recorded", func() bool { return len(c.deaths()) == 1 })
			a.Use(lost + ` 2s on commit below "/test/nodes/a/deaths/" call 1`)
			a.Heal()
			c.WaitUntil(30*time.Second, "it is taken back", func() bool { return len(c.deaths()) == 0 })
		})
	}
}

func TestPoison_O02_TheSpecHasTheBoundAndARetryBeginsAnew(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := supervise(c, time.Millisecond, "a", "b")
		c.submit(10, windlass.Spec{})
		c.Submit(windlass.Submission{ID: "poison", Spec: windlass.Spec{Retry: &windlass.Retry{Deaths: 2}}})
		s.watch(3 * time.Minute)
		s.blamed(10)
		c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, "poison")[0])
		s.watch(3 * time.Minute)
		s.blamed(10)
		if n := len(s.dead); n < 4 || n > 6 {
			t.Errorf("died: %v", s.dead)
		}
		c.Submit(windlass.Submission{ID: "poison", Spec: windlass.Spec{Retry: &windlass.Retry{Deaths: -1}}, Rerun: true})
		s.watch(3 * time.Minute)
		if got := c.status("poison"); got == windlass.StatusFailed || len(s.dead) < 8 {
			t.Errorf("without a bound it is %s after the deaths of %v", got, s.dead)
		}
		if e := c.explain("poison"); len(e.Deaths) < 4 || !strings.Contains(e.Why, "node(s) died that held it: ") {
			t.Errorf("it is explained with %q, deaths %q", e.Why, e.Deaths)
		}
	})
}

func TestPoison_O02_ANodeThatWasOnlyCutOffTakesItsDeathBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(4, windlass.Spec{})
		c.join("b")
		c.WaitUntil(time.Minute, "each has its share", func() bool { return c.runningOn("a") == 2 && c.runningOn("b") == 2 })
		a.Partition()
		c.WaitUntil(time.Minute, "its death is recorded", func() bool { return len(c.deaths()) == 1 })
		if d := c.deaths()[0]; d.Node != "a" || d.Claims != 2 || len(d.Lost) != 2 || d.Culprit != "" {
			t.Errorf("%+v", d)
		}
		a.Heal()
		c.WaitUntil(time.Minute, "it is taken back", func() bool { return len(c.deaths()) == 0 })
		c.must(a.Stop())
		c.Advance(time.Minute)
		if d := c.deaths(); len(d) > 0 {
			t.Errorf("a node that was stopped is recorded as dead: %+v", d)
		}
	})
}

// The death is recorded also if the answer to the registration was lost.
func TestPoison_O02_AFleetOfOneRecordsItsDeathWhateverWasLost(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		s := supervise(c, 0, "a")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(4))
		before := c.nodes()[0].Incarnation
		s.kill("a")
		s.restart(<-s.died)
		c.Advance(3 * time.Second) // it has seen that its name is held
		s.nodes["a"].Use(`lose-reply 2s on commit below "/test/nodes/a/info"`)
		c.WaitUntil(time.Minute, "it is registered", func() bool { n := c.nodes(); return len(n) == 1 && n[0].Incarnation != before })
		s.nodes["a"].Use("")
		c.WaitUntil(30*time.Second, "its death is recorded", func() bool { return len(c.deaths()) == 1 && c.deaths()[0].Claims == 4 })
	})
}

// One that was cut off comes back while another process has its name.
func TestPoison_O02_AProcessThatHasLostItsNameTakesItsDeathBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(4))
		a.Partition()
		c.join("a")
		c.WaitUntil(time.Minute, "its death is recorded", func() bool { return len(c.deaths()) == 1 && c.deaths()[0].Restarted })
		a.Heal()
		c.WaitUntil(time.Minute, "it is taken back", func() bool { return len(c.deaths()) == 0 })
	})
}

// One that was cut off ended itself, and the next process knows that.
func TestPoison_O02_AProcessThatEndedItselfWhileItWasCutOffHasNotDied(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(map[bool]string{true: "alone", false: "beside another"}[alone], func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				a := c.join("a")
				c.submit(4, windlass.Spec{})
				c.WaitUntil(time.Minute, "all run", c.allRunning(4))
				before := c.nodes()[0].Incarnation
				if !alone {
					c.join("b")
				}
				a.Kill() // whether it was cut off before is not seen from outside
				if !alone {
					c.WaitUntil(time.Minute, "its death is recorded", func() bool { return len(c.deaths()) == 1 })
				}
				c.join("a", func(config *windlass.Config) { config.Survived = []string{"another", before} })
				c.WaitUntil(time.Minute, "all run", func() bool { return len(c.nodes()) > 0 && c.nodes()[0].Incarnation != before && c.allRunning(4)() })
				c.Advance(5 * time.Second)
				if d := c.deaths(); len(d) > 0 {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// A process that registers as the session of the one before ends waits for the record of that
// death: it says what is suspected.
func TestPoison_O02_AProcessThatFollowsADeadOneClaimsNothingBeforeThatIsRecorded(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.joinFaulty("b", `delay-request 700ms on commit below "/test/nodes/a/deaths"`)
		c.Advance(time.Second)
		c.send("b", operate.Freeze, "") // it takes nothing, and records
		c.Advance(time.Second)
		a := c.join("a")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(4))
		before := c.nodes()[0].Incarnation
		a.Kill()
		var early, started atomic.Int32
		c.join("a", func(config *windlass.Config) {
			config.Handlers = map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				if started.Add(1); len(c.deaths()) == 0 {
					early.Add(1)
				}
				return untilStopped(ctx, claim)
			})}
		})
		c.WaitUntil(time.Minute, "it is registered", func() bool { return len(c.nodes()) == 2 && c.nodes()[0].Incarnation != before })
		c.WaitUntil(time.Minute, "all run", func() bool { return started.Load() == 4 })
		if early.Load() > 0 || len(c.deaths()) != 1 {
			t.Errorf("%d tasks were started before the death was recorded; %+v", early.Load(), c.deaths())
		}
	})
}

func TestFlapping_O03_ANodeThatKeepsDyingIsGivenNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		s := supervise(c, 0, "a", "b", "c")
		c.Advance(5 * time.Second)
		healthy := c.submit(30, windlass.Spec{})
		go func() {
			for range 9 {
				c.Advance(20 * time.Second) // of which it is there for some five
				s.kill("a")
			}
		}()
		s.watch(4 * time.Minute)
		for _, id := range healthy {
			if text, h := c.historyOf(id); h.Interruptions > 4 {
				t.Errorf("%s was interrupted %d times: %s", id, h.Interruptions, text)
			}
		}
		if e := c.explain(healthy[0]); !strings.Contains(e.Nodes[0].Why, "on probation") {
			t.Errorf("the node is explained with %q", e.Nodes[0].Why)
		}
		a := c.nodes()[0]
		if a.Probation.IsZero() || a.Tasks > 0 {
			t.Errorf("%+v", a)
		}
		c.WaitUntil(windlass.ProbationMax, "it works again", func() bool { return c.nodes()[0].Tasks == 10 })
	})
}
