package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// namespace is that of a run, next to another one.
const namespace = "/test-bench-x"

// world is a store in virtual time, each of whose commits takes a millisecond.
type world struct {
	store *memory.Store
	open  int // connections that were not closed
}

const commitTakes = time.Millisecond

// connection counts itself out when it is closed.
type connection struct {
	broker.Broker
	closed func()
}

// Close implements broker.Broker.
func (c *connection) Close() error {
	c.closed()
	c.closed = func() {} // closing twice is no error
	return c.Broker.Close()
}

func (w *world) config(tasks, nodes int) Config {
	plan := &faulty.Plan{Rules: []faulty.Rule{{Fault: faulty.DelayRequest, Duration: commitTakes, Ops: faulty.OpCommit}}}
	return Config{
		Tasks: tasks, Nodes: nodes, SessionTTL: 5 * time.Second, Timeout: time.Minute, Namespace: namespace, clock: clock.Process,
		Connect: func(context.Context) (broker.Broker, error) {
			w.open++
			return &connection{Broker: faulty.Wrap(w.store.Broker(), plan), closed: func() { w.open-- }}, nil
		},
	}
}

// inWorld runs a test in virtual time, and checks that nothing is left in the end but what
// was there before.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memory.New()}
		b := w.store.Broker()
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/x", nil)}}); err != nil {
			t.Fatal(err)
		}
		test(t, w)
		for prefix, want := range map[string]int{"/test/": 1, namespace + "/": 0} {
			if left, _, err := broker.Collect(t.Context(), b, prefix); err != nil || len(left) != want {
				t.Errorf("below %s there are %v (%v), want %d", prefix, left, err, want)
			}
		}
		if w.open != 0 {
			t.Errorf("%d connections are open", w.open)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRun_MeasuresTheBrokerAndTheFleet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, err := Run(t.Context(), w.config(300, 3))
		if err != nil {
			t.Fatal(err)
		}
		if want := (Raw{Puts: 1000, BulkPuts: 300_000, BulkClaims: 300_000}); *r.Raw != want {
			t.Errorf("raw are %+v, want %+v", *r.Raw, want)
		}
		for name, rate := range map[string]*Rate{"jobs": r.Jobs, "tasks": r.Started} {
			if rate.PerSecond <= 0 || rate.PerSecond >= r.Raw.BulkClaims {
				t.Errorf("%s: %v a second, and the broker does %v", name, rate.PerSecond, r.Raw.BulkClaims)
			}
			if want := (Rate{rate.PerSecond, rate.PerSecond / 1000, rate.PerSecond / 300_000, rate.PerSecond / 300_000}); *rate != want {
				t.Errorf("%s: %+v, want %+v", name, *rate, want)
			}
		}
		if r.Lost.Tasks < 100 || r.Lost.Tasks >= 300 || r.Lost.Expired <= 0 || r.Lost.Expired > 6 || r.Lost.Running <= 0 || r.Lost.Running > 1 {
			t.Errorf("the lost node had %+v", *r.Lost)
		}
	})
}

func TestRun_ASingleNodeIsNotLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, err := Run(t.Context(), w.config(1, 1))
		if err != nil || r.Started == nil || r.Lost != nil {
			t.Errorf("the report is %+v (%v)", r, err)
		}
	})
}

func TestRun_AnInterruptCleansUpAndKeepsTheFigures(t *testing.T) {
	for _, at := range []string{"measuring the broker", "starting 2 node(s)", "running 50 jobs", "starting 50 tasks", "a node with"} {
		t.Run(at, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				c := w.config(50, 2)
				c.Progress = func(text string, _ int) {
					if strings.HasPrefix(text, at) {
						interrupt()
					}
				}
				r, err := Run(ctx, c)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if (r.Raw == nil) != (at == "measuring the broker") || r.Lost != nil {
					t.Errorf("the report is %+v", r)
				}
			})
		})
	}
}

func TestRun_ATimeoutNamesItsWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config(50, 2)
		c.Timeout = time.Nanosecond
		if _, err := Run(t.Context(), c); err == nil || err.Error() != "not within 1ns: the broker to take raw transactions" {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestRun_ANodeThatFailsEndsTheRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config(50, 2)
		connect, connections := c.Connect, 0
		c.Connect = func(ctx context.Context) (broker.Broker, error) {
			b, err := connect(ctx)
			if connections++; connections == 2 { // that of the first node
				b.(*connection).Broker.(*faulty.Broker).Use(&faulty.Plan{Rules: []faulty.Rule{{Fault: faulty.Forbid, Ops: faulty.OpCommit}}})
			}
			return b, err
		}
		_, err := Run(t.Context(), c)
		if !errors.Is(err, broker.ErrPermission) || !strings.Contains(err.Error(), "jobs: node bench-1: ") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestConfig_NamesBadInputAndItsLimit(t *testing.T) {
	good := Config{Tasks: 1, Nodes: 1, SessionTTL: 5 * time.Second, Timeout: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		`tasks "0": must be from 1 to 1000000`:                     func(c *Config) { c.Tasks = 0 },
		`tasks "1000001": must be from 1 to 1000000`:               func(c *Config) { c.Tasks = 1_000_001 },
		`nodes "65": must be from 1 to 64`:                         func(c *Config) { c.Nodes = 65 },
		`session-ttl "4s": must be from 5s to 5m0s`:                func(c *Config) { c.SessionTTL = 4 * time.Second },
		`session-ttl "0s": must be from 5s to 5m0s`:                func(c *Config) { c.SessionTTL = 0 },
		`timeout "2h0m0s": must be more than 0 and at most 1h0m0s`: func(c *Config) { c.Timeout = 2 * time.Hour },
	} {
		c := good
		spoil(&c)
		report, err := Run(t.Context(), c)
		if _, ok := errors.AsType[*windlass.BadInputError](err); !ok || err.Error() != want || report.Raw != nil {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// Scripts read it: fields may be added, none may be renamed or taken away.
func TestReport_ItsJSONIsStable(t *testing.T) {
	raw := &Raw{Puts: 10, BulkPuts: 400, BulkClaims: 200}
	full := Report{Tasks: 5, Nodes: 3, Raw: raw, Jobs: raw.rate(50, time.Second), Started: raw.rate(100, time.Second), Lost: &Loss{Tasks: 2, Expired: 4.5, Running: 0.25}}
	for want, r := range map[string]Report{
		`{"tasks":5,"nodes":3,"raw":null,"jobs_completed":null,"tasks_started":null,"node_lost":null}`: {Tasks: 5, Nodes: 3},
		`{"tasks":5,"nodes":3,"raw":{"puts_per_second":10,"bulk_puts_per_second":400,"bulk_claims_per_second":200},` +
			`"jobs_completed":{"per_second":50,"of_puts":5,"of_bulk_puts":0.125,"of_bulk_claims":0.25},` +
			`"tasks_started":{"per_second":100,"of_puts":10,"of_bulk_puts":0.25,"of_bulk_claims":0.5},` +
			`"node_lost":{"tasks":2,"expired_after_seconds":4.5,"running_again_after_seconds":0.25}}`: full,
	} {
		got, err := json.Marshal(r)
		if err != nil || string(got) != want {
			t.Errorf("the report is %s (%v), want %s", got, err, want)
		}
	}
}

func TestPerSecond_IsFiniteWithoutTime(t *testing.T) {
	if got := perSecond(1, 0); got != 1e9 {
		t.Errorf("it is %v", got)
	}
}
