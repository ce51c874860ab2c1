package windlasstest_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestOverlap_AHandlerThatIgnoresItsContextFailsTheTest(t *testing.T) {
	for name, fault := range map[string]func(*windlasstest.Node){
		"freeze": (*windlasstest.Node).Freeze, "partition": (*windlasstest.Node).Partition,
	} {
		t.Run(name, func(t *testing.T) {
			test := func(c *windlasstest.Cluster) {
				fault(start(c, config(stubborn), "a", "b"))
				c.Advance(2 * ttl)
				if overlaps := c.Overlaps(); len(overlaps) != 1 || overlaps[0].For < ttl/2 {
					t.Errorf("the overlaps are %v", overlaps)
				}
			}
			contains(t, attempt(t, windlasstest.Options{}, test), `two handlers of "task" at once for`,
				"what happened:", "runs \"task\" with token", "leaves the handlers of [\"task\"] behind")
			if log := attempt(t, windlasstest.Options{AllowOverlaps: true}, test); log != "" {
				t.Errorf("overlaps are allowed, and it says %s", log)
			}
		})
	}
}

func TestOverlap_OneThatBeginsInCloseFailsTheTest(t *testing.T) {
	log := attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		n := start(c, config(stubborn), "a", "b")
		n.Partition()
		c.Advance(ttl - time.Second) // its session is about to expire
	})
	if strings.Contains(log, "two handlers") {
		t.Errorf("no node runs anything after the end of the test: %s", log)
	}
}

func TestOverlap_TheLongestAreShownFirstAndNotAll(t *testing.T) {
	log := attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		n := start(c, config(stubborn), "a", "b")
		for _, id := range strings.Split("bcdefghijklmnopqrstuvwxyz", "") {
			c.Submit(windlass.Submission{ID: id})
		}
		c.Settle(time.Minute)
		n.Partition()
		c.Advance(2 * ttl)
	})
	if n := strings.Count(log, "two handlers of"); n != 10 {
		t.Errorf("%d are shown", n)
	}
	contains(t, log, "overlaps more")
}

func TestHandler_OneThatPanicsOrExitsIsRecordedAndRunAgain(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
				first := true
				c.Start("a", config(func(context.Context, *windlass.Claim) error {
					if first {
						first = false
						fail()
					}
					return nil
				}))
				c.Submit(windlass.Submission{ID: "task"})
				detail := c.WaitFor(10*time.Minute, "task", windlass.StatusCompleted)
				runs := c.Runs("task")
				if len(runs) != 2 || runs[0].Err == nil || runs[0].Ended.IsZero() || runs[1].Err != nil || len(detail.Errors) != 1 {
					t.Errorf("the runs are %v, the errors %v", runs, detail.Errors)
				}
			})
		})
	}
}

func TestClose_AfterATestThatGaveUpEndsEverythingAndTellsWhatHappened(t *testing.T) {
	log := attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		frozen := start(c, config(untilStopped), "a", "b", "c")
		frozen.Freeze()
		c.Settle(time.Minute)
		c.Holder("task").Kill()
		c.Holder("task") // there is none
	})
	contains(t, log, `0 handlers of "task" run`, "is frozen", "is killed", "has joined", "it is running", "told to stop", "the test is over")
	if strings.LastIndex(log, "is frozen") > strings.LastIndex(log, "is killed") {
		t.Errorf("not in order:\n%s", log)
	}
}

func TestClose_HandlersThatNeverReturnAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeT{TB: t}
		c := windlasstest.New(f, windlasstest.Options{})
		forever := make(chan struct{})
		defer close(forever)
		start(c, config(func(context.Context, *windlass.Claim) error {
			<-forever
			return nil
		}), "a")
		defer func() {
			text, _ := recover().(string)
			contains(t, text, `have not returned: ["task" on a(`, "is told to stop", "leaves the handlers")
		}()
		c.Holder("task").Stop()
		c.Close()
		t.Error("it did not panic")
	})
}

func TestClose_ANodeThatEndedByItselfFailsTheTest(t *testing.T) {
	log := attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		cfg := config(untilStopped)
		cfg.Broker, cfg.Namespace, cfg.Name = c.Connect(), windlasstest.Namespace, "a"
		cfg.Clock = func() (boot, day time.Duration) { return time.Since(time.Time{}.AddDate(1999, 0, 0)), 0 }
		other, err := windlass.NewNode(cfg)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, stop := context.WithCancel(context.Background())
		defer func() {
			stop()
			<-other.Done()
		}()
		go other.Run(ctx)
		c.Advance(time.Second)
		n := c.Start("a", config(untilStopped))
		c.Advance(time.Minute)
		if !errors.Is(n.Over(), windlass.ErrNameTaken) {
			t.Errorf("it says %v", n.Over())
		}
	})
	contains(t, log, "node a ended by itself", "waits to join")
}

func TestStart_ANameInUseOrAConfigurationThatMakesNoSenseFailsTheTest(t *testing.T) {
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Start("a", config(untilStopped)).Restart()
	}), "one of that name lives")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Start("a", windlass.Config{})
	}), "handlers")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Start("a", windlass.Config{Handlers: map[string]windlass.NewHandler{"x": nil}})
	}), "must not be nil")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Start("a", config(untilStopped)).Use("make it slow")
	}), "fault plan")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Submit(windlass.Submission{ID: "a/b"})
	}), `submit "a/b"`)
}

func TestSettle_NamesWhatIsAmissAndHowTheNodesAre(t *testing.T) {
	typed := windlass.Config{Handlers: map[string]windlass.NewHandler{"mail": windlass.HandlerFunc(untilStopped)}}
	for name, test := range map[string]struct {
		do   func(t *testing.T, c *windlasstest.Cluster)
		want []string
	}{
		"a type that nobody handles": {func(t *testing.T, c *windlasstest.Cluster) {
			c.Start("a", typed)
			c.Submit(windlass.Submission{ID: "task", Spec: windlass.Spec{Type: "male"}})
		}, []string{`no node that lives has a handler for the type "male"`, "node a holds 0 tasks"}},
		"only the dead could": {func(t *testing.T, c *windlasstest.Cluster) {
			c.Start("a", typed).Kill()
			c.Start("b", typed).Stop()
			c.Submit(windlass.Submission{ID: "task", Spec: windlass.Spec{Type: "mail"}})
		}, []string{"no node that lives", "node a is killed", "node b is stopped"}},
		"nobody who could is there": {func(t *testing.T, c *windlasstest.Cluster) {
			c.Start("a", typed).Partition()
			noError(t, c.Start("b", typed).Drain(t.Context()))
			c.Start("c", typed) // whose broker gives no sessions
			c.Submit(windlass.Submission{ID: "task", Spec: windlass.Spec{Type: "mail"}})
		}, []string{`"task" is pending;`, "node a is partitioned", "node b is draining", "node c has not joined"}},
		"the only holder is cut off": {func(t *testing.T, c *windlasstest.Cluster) {
			start(c, config(untilStopped), "a").Freeze()
			c.Advance(5 * time.Second)
			c.Settle(0)
		}, []string{`"task" runs on a, which is frozen`}},
		"it cannot move": {func(t *testing.T, c *windlasstest.Cluster) {
			start(c, config(untilStopped), "a").Kill()
			c.Advance(5 * time.Second)
			c.Settle(0)
		}, []string{`"task" is held by a with token`, "the runs []"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := attempt(t, windlasstest.Options{Open: noSessionsForThe(4)}, func(c *windlasstest.Cluster) {
				test.do(t, c)
				c.Settle(time.Minute)
			})
			contains(t, log, "not settled within", strings.ReplaceAll(test.want[0], ";", ""))
			contains(t, log, test.want[1:]...)
		})
	}
}

// noSessionsForThe opens connections to one broker in memory. The n-th gets no session.
func noSessionsForThe(n int) func() broker.Broker {
	var store *memory.Store
	return func() broker.Broker {
		if store == nil {
			store = memory.New() // inside the bubble
		}
		if n--; n != 0 {
			return store.Broker()
		}
		return faulty.Wrap(store.Broker(), faulty.MustParse("refuse on grant"))
	}
}

func TestSettle_ATaskThatIsNotDueOrWaitsIsAsItShouldBe(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		c.Start("a", config(untilStopped))
		later := time.Now().Add(time.Hour)
		c.Submit(windlass.Submission{ID: "first"}, windlass.Submission{ID: "then", Spec: windlass.Spec{Needs: []string{"first"}}},
			windlass.Submission{ID: "later", Spec: windlass.Spec{NotBefore: later}})
		c.Settle(time.Minute)
		if ran := c.Ran(); len(ran) != 1 || ran[0] != "first" {
			t.Errorf("%q ran", ran)
		}
		c.Advance(time.Until(later))
		c.Settle(time.Minute)
		if c.Running("later") != 1 {
			t.Error("it is due and does not run")
		}
		noError(t, c.Client().Delete(t.Context(), "first"))
		c.Settle(time.Minute)
		c.WaitFor(time.Minute, "then", windlass.StatusRunning)
	})
}

func TestWait_SaysWhatDidNotHappen(t *testing.T) {
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.WaitUntil(time.Second, "the moon rises", func() bool { return false })
	}), "not within 1s: the moon rises")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.Start("a", config(func(context.Context, *windlass.Claim) error { return errors.New("no luck") }))
		c.Submit(windlass.Submission{ID: "task"})
		c.WaitFor(3*time.Second, "task", windlass.StatusCompleted)
	}), `not within 3s: "task" is completed; it is sleeping`, "no luck", "node a holds 1 tasks")
	contains(t, attempt(t, windlasstest.Options{}, func(c *windlasstest.Cluster) {
		c.WaitFor(0, "task", windlass.StatusCompleted)
	}), "there is no such task")
}

func TestWaitFor_ReturnsTheTask(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		c.Start("a", config(func(_ context.Context, claim *windlass.Claim) error { return claim.SetResult(42) }))
		c.Submit(windlass.Submission{ID: "task"})
		if detail := c.WaitFor(time.Minute, "task", windlass.StatusCompleted); string(detail.Result) != "42" {
			t.Errorf("%+v", detail)
		}
		took := c.WaitUntil(time.Minute, "now", func() bool { return true })
		if took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestOptions_SleepDecidesHowTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := windlasstest.New(t, windlasstest.Options{Sleep: func(d time.Duration) {
			time.Sleep(2 * d)
			synctest.Wait()
		}})
		began := time.Now()
		c.Advance(time.Minute)
		if passed := time.Since(began); passed != 2*time.Minute {
			t.Errorf("%v have passed", passed)
		}
	})
}

func TestStart_ANodeMayHaveItsOwnConnectionAndTheNameOfOneThatIsCutOff(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		own := config(untilStopped)
		line := c.Connect()
		own.Broker = line
		c.Submit(windlass.Submission{ID: "task"})
		first := c.Start("a", own)
		c.Settle(time.Minute)
		line.Cut()
		c.Advance(time.Minute)
		if c.Running("task") != 0 {
			t.Error("its calls take another way")
		}
		first.Partition()
		c.Start("a", config(untilStopped))
		c.Settle(time.Minute)
		if runs := c.Runs("task"); len(runs) != 2 || runs[0].Ended.IsZero() {
			t.Errorf("the runs %v", runs)
		}
	})
}
