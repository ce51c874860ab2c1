package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/observe/metrics"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMetrics_TellWhatANodeHoldsAndRuns(t *testing.T) {
	inFleet(t, func(f *fleet) {
		release := make(chan struct{})
		n := f.join("n1", func(c *windlass.Config) {
			c.Handlers["short"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { <-release; pause(time.Second); return nil })
			c.Handlers["bad"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return errors.New("no") })
			c.Handlers["broken"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return windlass.Permanent(errors.New("no")) })
		})
		f.submit("long", "a", "b", "c")
		f.submit("short", "d")
		f.says(n, 4, "windlass_node_tasks", "ns=/test", "state=running")
		f.says(n, 4, "windlass_tasks", "ns=/test", "state=held")
		f.is(n, 0, "windlass_tasks", "state=unheld")
		close(release)
		f.says(n, 1, "windlass_run_seconds", "type=short", "outcome=completed")
		f.submit("bad", "e")
		f.says(n, 1, "windlass_handler_errors_total", "final=false")
		f.says(n, 1, "windlass_node_tasks", "state=sleeping")
		f.says(n, 1, "windlass_run_seconds", "type=bad", "outcome=sleeping")
		f.submit("broken", "g")
		f.says(n, 1, "windlass_handler_errors_total", "final=true")
		f.submit("long", "later")
		_, err := f.client.SendTask(f.Context(), "a", statemachine.Command{Message: statemachine.Pause})
		must(f, err)
		f.says(n, 1, "windlass_node_tasks", "state=paused")
		f.says(n, 1, "windlass_run_seconds", "type=long", "outcome=paused")
		f.put("/test/tasks/unreadable", "{")
		f.says(n, 1, "windlass_unreadable_values_total")
		f.says(n, 1, "windlass_tasks", "state=unheld")
		f.says(n, 7, "windlass_claims_total", "result=won")
		f.says(n, 1, "windlass_claim_seconds")
		f.is(n, 1, "windlass_nodes_joined")
		f.is(n, 1, "windlass_build_info")
		f.says(n, 7, "windlass_handover_seconds", "cause=placed")
		for _, op := range []string{"commit", "list", "grant", "keepalive"} {
			f.says(n, 1, "windlass_store_seconds", "op="+op)
		}
		f.says(n, 1, "windlass_lease_renew_seconds")
	})
}

func TestMetrics_TheLeaseMarginShrinksWhileTheSessionIsNotRenewedAndThenItIsFenced(t *testing.T) {
	inFleet(t, func(f *fleet) {
		overdue := make(chan []string, 1)
		stubborn := make(chan struct{})
		n := f.join("n1", func(c *windlass.Config) {
			c.Fence = func(ids func() []string) { overdue <- ids() }
			c.Handlers["stubborn"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { <-stubborn; return nil })
		})
		f.submit("stubborn", "a")
		f.says(n, 1, "windlass_node_tasks", "state=running")
		timing := session.Derive(session.TTLDefault)
		margin, ok := value(t, n.metrics, "windlass_lease_margin_seconds")
		if least := (timing.Stop - timing.Renew - timing.Try).Seconds(); !ok || margin < least || margin > timing.Stop.Seconds() {
			t.Errorf("the margin is %v (there: %t), want %v to %v", margin, ok, least, timing.Stop)
		}
		n.broker.Cut()
		pause(timing.Stop / 2)
		if later, _ := value(t, n.metrics, "windlass_lease_margin_seconds"); later > margin-timing.Stop.Seconds()/4 {
			t.Errorf("without renewals the margin went from %v to %v in %v", margin, later, timing.Stop/2)
		}
		f.says(n, 1, "windlass_self_fence_total", "reason=deadline")
		f.says(n, 1, "windlass_overlap_guard_kills_total")
		if ids := <-overdue; len(ids) != 1 || ids[0] != "a" {
			t.Errorf("the fence was told of %q", ids)
		}
		f.is(n, 0, "windlass_nodes_joined")
		if v, ok := value(t, n.metrics, "windlass_lease_margin_seconds"); ok {
			t.Errorf("without a session the margin is %v", v)
		}
		f.says(n, 1, "windlass_store_errors_total", "op=keepalive", "kind=unavailable")
		f.says(n, 1, "windlass_watch_resyncs_total", "reason=error")
		close(stubborn)
		n.broker.Heal()
		f.says(n, 1, "windlass_nodes_joined")
	})
}

func TestMetrics_ASessionThatTheBrokerEndedAndARegistrationThatIsGone(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		kvs, _, err := broker.Collect(f.Context(), f.store.Broker(), "/test/nodes/n1/")
		if err != nil || len(kvs) == 0 {
			t.Fatalf("%v, %v", kvs, err)
		}
		f.commit(broker.Delete("/test/nodes/n1/info"))
		f.says(n, 1, "windlass_self_fence_total", "reason=lost")
		f.says(n, 1, "windlass_nodes_joined")
		f.submit("x", "a")
		f.says(n, 1, "windlass_node_tasks", "state=running")
		kv, err := f.store.Broker().Get(f.Context(), "/test/nodes/n1/info")
		must(t, err)
		n.broker.Use(faulty.MustParse("stall on batch")) // or it sees its keys go first
		must(t, f.store.Broker().Revoke(f.Context(), kv.Session))
		f.says(n, 1, "windlass_self_fence_total", "reason=expired")
		n.broker.Use(nil)
		f.says(n, 1, "windlass_nodes_joined")
	})
}

func TestMetrics_AWriteForAClaimThatIsGoneIsFenced(t *testing.T) {
	inFleet(t, func(f *fleet) {
		finish := make(chan struct{})
		n := f.join("n1", func(c *windlass.Config) {
			c.Handlers["x"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { <-finish; return nil })
		})
		f.submit("x", "a")
		f.says(n, 1, "windlass_node_tasks", "state=running")
		n.broker.Use(faulty.MustParse("stall on batch")) // it does not see that the claim goes
		f.commit(broker.Delete("/test/tasks/a/owner"))
		close(finish)
		f.says(n, 1, "windlass_fenced_writes_total")
	})
}

func TestMetrics_AClaimOfUnknownOutcomeTurnsUp(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		// Both the answer to the claim and those to reading back are lost.
		n.broker.Use(faulty.MustParse(`lose-reply 1s on commit below "/test/tasks/a" call 1
lose-reply 1s on commit below "/test/tasks/a" call 2`))
		f.submit("x", "a")
		f.says(n, 1, "windlass_claims_total", "result=ambiguous")
		f.says(n, 1, "windlass_orphans_reconciled_total")
		f.says(n, 1, "windlass_node_tasks", "state=running")
	})
}

func TestMetrics_AClaimIsLostToAnotherNodeOrFailsInTheStore(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		n.broker.Use(faulty.MustParse(`delay-request 5s on commit below "/test/tasks/a" call 1`))
		f.submit("x", "a")
		pause(time.Second)
		f.put("/test/tasks/a/owner", `{"node":"another"}`)
		f.says(n, 1, "windlass_claims_total", "result=lost")
		f.is(n, 0, "windlass_claims_total", "result=failed")
		n.broker.Use(faulty.MustParse(`refuse on commit below "/test/tasks/b" call 1`))
		f.submit("x", "b")
		f.says(n, 1, "windlass_claims_total", "result=failed")
		f.says(n, 1, "windlass_store_errors_total", "op=commit", "kind=unavailable")
		f.is(n, 1, "windlass_claims_total", "result=lost")
	})
}

func TestMetrics_TasksThatMoveAndAreTakenOver(t *testing.T) {
	inFleet(t, func(f *fleet) {
		first := f.join("n1")
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprint("t", i))
		}
		f.submit("x", ids...)
		f.says(first, 20, "windlass_node_tasks", "state=running")
		second := f.join("n2")
		f.says(first, 10, "windlass_rebalance_moves_total")
		f.says(second, 10, "windlass_handover_seconds", "cause=moved")
		f.says(second, 20, "windlass_tasks", "state=held")
		first.broker.Cut()
		f.says(second, 10, "windlass_handover_seconds", "cause=taken_over")
		f.says(second, 20, "windlass_node_tasks", "state=running")
		for _, m := range []*member{first, second} {
			held := 0
			for _, n := range m.Stats().Held {
				held += n
			}
			if tasks := len(m.Tasks()); held != tasks {
				t.Errorf("node %s counts %d tasks and has %d", m.Name(), held, tasks)
			}
		}
	})
}

func TestMetrics_WhyAWatchWasBegunAnew(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		n.broker.Use(faulty.MustParse("compact on batch call 1\nbreak on batch call 2"))
		f.submit("x", "a", "b", "c")
		f.says(n, 1, "windlass_watch_resyncs_total", "reason=compacted")
		f.says(n, 1, "windlass_watch_resyncs_total", "reason=error")
		f.is(n, 0, "windlass_watch_resyncs_total", "reason=stalled")
		n.broker.Use(nil)
		m := newMetrics(t, metrics.Config{Namespace: "/test"})
		// What a store says whose watch went silent; its own tests make it so.
		silent := m.Broker(silentBroker{f.store.Broker()})
		for _, err := range silent.Watch(f.Context(), "/test/tasks/", 1) {
			if !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("it ended with %v", err)
			}
		}
		if got, _ := value(t, m, "windlass_watch_resyncs_total", "reason=stalled"); got != 1 {
			t.Errorf("%v watches have stalled", got)
		}
	})
}

// silentBroker is a broker whose watches fall silent.
type silentBroker struct{ broker.Broker }

// Watch implements broker.Broker.
func (silentBroker) Watch(context.Context, string, broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		yield(broker.Batch{}, broker.NewError("watch", "", broker.ErrUnavailable, broker.ErrSilent))
	}
}

func TestMetrics_AWatchThatIsHeldUpLags(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		f.until("the watches have caught up", func() bool {
			lag, ok := value(t, n.metrics, "windlass_watch_lag_revisions", "watch=tasks")
			return ok && lag == 0
		})
		n.broker.Use(faulty.MustParse(`stall on batch below "/test/tasks/"`))
		f.submit("x", "a", "b", "c")
		store := n.metrics.Broker(n.broker) // another call of this process sees the new revision
		if _, _, err := broker.Collect(f.Context(), store, "/test/tasks/"); err != nil {
			t.Fatal(err)
		}
		f.says(n, 3, "windlass_watch_lag_revisions", "watch=tasks")
	})
}

func TestMetrics_MostNodesVanish(t *testing.T) {
	inFleet(t, func(f *fleet) {
		members := []*member{f.join("n1"), f.join("n2"), f.join("n3"), f.join("n4")}
		f.submit("x", "a", "b", "c", "d")
		f.says(members[0], 4, "windlass_tasks", "state=held")
		for _, m := range members[1:] {
			m.broker.Cut()
		}
		f.says(members[0], 1, "windlass_brakes_total")
	})
}

func TestMetrics_ElectionsThatAreLed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		e, err := n.Election("e", n.metrics.Election(election.Events{}))
		must(t, err)
		must(t, e.Start())
		f.says(n, 1, "windlass_elections_led")
		f.is(n, 1, "windlass_election_terms_total")
		n.leave()
		f.is(n, 0, "windlass_elections_led")
	})
}

func TestMetrics_TypesAreBounded(t *testing.T) {
	m := newMetrics(t, metrics.Config{TypesMax: 2})
	told := m.Events(events.Node{})
	for _, name := range []string{"a", "", "c", "d", "a", "c", ""} {
		for _, outcome := range []events.Outcome{events.Completed, events.Failed} {
			told.Ended(events.End{Type: name, Outcome: outcome, Ran: true, Took: time.Second})
		}
	}
	told.Ended(events.End{Type: "a", Outcome: events.Released}) // nothing ran
	for name, want := range map[string]float64{"a": 2, metrics.TypeNone: 2, metrics.TypeOther: 3} {
		if got, _ := value(t, m, "windlass_run_seconds", "type="+name, "outcome=completed"); got != want {
			t.Errorf("%v runs of type %s, want %v", got, name, want)
		}
	}
	for _, gone := range []string{"type=c", "type=d", "outcome=released"} {
		if _, ok := value(t, m, "windlass_run_seconds", gone); ok {
			t.Errorf("there is a series with %s", gone)
		}
	}
}

func TestMetrics_PassEverythingOn(t *testing.T) {
	m := newMetrics(t, metrics.Config{})
	var got []string
	note := func(what string) { got = append(got, what) }
	e := m.Events(events.Node{
		Joined: func(string, session.Timing) { note("joined") }, Left: func(string, error, []string) { note("left") },
		Granted: func(events.Grant) { note("granted") }, Claimed: func(string, int64) { note("claimed") }, Ended: func(events.End) { note("ended") },
		Errored: func(string, error, time.Time) { note("errored") }, Adopted: func(string, int64) { note("adopted") },
		Balanced: func(events.Trigger, int) { note("balanced") }, Corrupt: func(string, error) { note("corrupt") }, Braked: func(int, int) { note("braked") },
	})
	e.Joined("i", session.Timing{})
	e.Granted(events.Grant{Cause: events.Adopted})
	e.Claimed("a", 1)
	e.Ended(events.End{Ran: true})
	e.Errored("a", errors.New("no"), time.Time{})
	e.Adopted("a", 1)
	e.Balanced(events.TriggerDrift, 1)
	e.Corrupt("k", errors.New("no"))
	e.Braked(1, 1)
	e.Left("i", nil, nil)
	if want := "joined granted claimed ended errored adopted balanced corrupt braked left"; strings.Join(got, " ") != want {
		t.Errorf("it passed on %q, want %q", got, want)
	}
}

func TestMetrics_HowFullTheStoreIs(t *testing.T) {
	asked := 0
	var failure error
	m, err := metrics.New(metrics.Config{Space: func(context.Context) (int64, int64, error) {
		asked++
		return 30, 120, failure
	}})
	must(t, err)
	for range 3 {
		if got, ok := value(t, m, "windlass_store_quota_ratio"); !ok || got != 0.25 {
			t.Errorf("the ratio is %v (there: %t)", got, ok)
		}
	}
	if asked != 1 {
		t.Errorf("the store was asked %d times in a moment", asked)
	}
	for _, test := range []func(context.Context) (int64, int64, error){
		nil,
		func(context.Context) (int64, int64, error) { return 1, 0, nil },
		func(context.Context) (int64, int64, error) { return 1, 2, errors.New("away") },
	} {
		m := newMetrics(t, metrics.Config{Space: test})
		if got, ok := value(t, m, "windlass_store_quota_ratio"); ok {
			t.Errorf("without an answer the ratio is %v", got)
		}
	}
}

func TestMetrics_TasksByStatusFromWhoCountsThem(t *testing.T) {
	m := newMetrics(t, metrics.Config{Namespace: "shop/"})
	m.Count(func() map[windlass.Status]int { return map[windlass.Status]int{windlass.StatusFailed: 3} })
	if got, _ := value(t, m, "windlass_tasks", "ns=/shop", "state=failed"); got != 3 {
		t.Errorf("%v tasks have failed", got)
	}
}

func TestNew_RefusesWhatMakesNoSense(t *testing.T) {
	_, err := metrics.New(metrics.Config{TypesMax: -1})
	if input, ok := errors.AsType[*windlass.BadInputError](err); !ok || input.Field != "TypesMax" {
		t.Errorf("error %v", err)
	}
	registry := prometheus.NewRegistry()
	_, err = metrics.New(metrics.Config{Registry: registry})
	must(t, err)
	before, err := registry.Gather()
	must(t, err)
	if _, err := metrics.New(metrics.Config{Registry: registry}); err == nil {
		t.Error("one registry took everything twice")
	}
	if after, err := registry.Gather(); err != nil || len(after) != len(before) {
		t.Errorf("then it had %d families instead of %d: %v", len(after), len(before), err)
	}
}

// A program may be in two namespaces.
func TestNew_OneRegistryTakesTheMetricsOfSeveralNamespaces(t *testing.T) {
	registry := prometheus.NewRegistry()
	for namespace, failed := range map[string]int{"shop": 3, "bank": 5} {
		m := newMetrics(t, metrics.Config{Namespace: namespace, Registry: registry})
		m.Count(func() map[windlass.Status]int { return map[windlass.Status]int{windlass.StatusFailed: failed} })
		m.LogFailed()
	}
	families, err := registry.Gather()
	must(t, err)
	seen := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if name := family.GetName(); name == "windlass_tasks" || name == "windlass_command_log_errors_total" {
				seen[name+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	if want := map[string]float64{"windlass_tasks/shop": 3, "windlass_tasks/bank": 5, "windlass_command_log_errors_total/shop": 1, "windlass_command_log_errors_total/bank": 1}; !maps.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

func TestHandler_ServesThemWithOthersOfTheProcess(t *testing.T) {
	other := prometheus.NewRegistry()
	for _, name := range []string{"etcd_wanted", "unwanted"} {
		other.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "x"}))
	}
	m := newMetrics(t, metrics.Config{Also: []prometheus.Gatherer{metrics.Only(other, "etcd_")}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"windlass_claims_total{ns=\"/windlass\",result=\"won\"} 0", "etcd_wanted 0", "go_goroutines ", "windlass_build_info{"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(w.Body.String(), "\nunwanted") {
		t.Error("there is what was not wanted")
	}
}
