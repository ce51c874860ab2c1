package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/statemachine"
)

// TestStates_M54_ABrokerThatFailsEndsNoTask fails everything that concerns states,
// while tasks sleep, wake up, fail and are paused.
func TestStates_M54_ABrokerThatFailsEndsNoTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var faults []*faulty.Broker
		for _, name := range []string{"a", "b"} {
			c.join(name, func(cfg *windlass.Config) {
				f := faulty.Wrap(cfg.Broker, faulty.MustParse(""))
				cfg.Broker = f
				faults = append(faults, f)
				cfg.Handlers["fails"] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
					defer c.began(claim)()
					return errors.New("no")
				})
			})
		}
		for i := range 6 {
			kind := []string{"fails", "stays"}[i%2]
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: fmt.Sprintf("t%d", i), Spec: windlass.Spec{Type: kind, Retry: &windlass.Retry{Errors: -1}}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, plan := range []string{
			`lose-request 1s on commit below "/test/state/"`, `lose-reply 1s on commit below "/test/state/"`, `refuse on commit`,
			"lose-reply 1s on commit chance 0.7", `late 3s on commit below "/test/state/" chance 0.5`,
		} {
			for _, f := range faults {
				f.Use(faulty.MustParse(plan))
			}
			for i, m := range []statemachine.Message{statemachine.Pause, statemachine.Sleep, statemachine.Run} {
				if _, err := c.client.SendTask(t.Context(), fmt.Sprintf("t%d", 2*i+1), command(m)); err != nil {
					t.Fatal(err)
				}
			}
			c.sleep(20 * time.Second)
			for i := range 6 {
				if s := c.status(fmt.Sprintf("t%d", i)); statemachine.State(s).Terminal() {
					t.Errorf("under %s t%d has ended as %s", plan, i, s)
				}
			}
			for _, f := range faults {
				f.Use(nil)
			}
			c.sleep(time.Minute)
			for i, want := range []windlass.Status{windlass.StatusPaused, windlass.StatusSleeping, windlass.StatusRunning} {
				id := fmt.Sprintf("t%d", 2*i+1)
				c.eventually(time.Minute, fmt.Sprintf("%s is %s after %s; it is %s", id, want, plan, c.status(id)), func() bool { return c.status(id) == want })
			}
			for i := 1; i < 6; i += 2 {
				if _, err := c.commandTo(fmt.Sprintf("t%d", i), command(statemachine.Run)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestStates_M54_AnUnreadableStateIsLeftAloneUntilItIsMended(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.put("/test/tasks/t", "")
		c.put("/test/state/t", `{"state":"melted"}`)
		n := c.join("n")
		c.eventually(5*time.Second, "it is parked", func() bool { return len(n.Tasks()) == 1 && n.Tasks()[0].Parked })
		if s := c.status("t"); s != windlass.StatusFault {
			t.Errorf("it is %s", s)
		}
		if _, err := c.client.SendTask(t.Context(), "t", command(statemachine.Kill)); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Minute)
		if value, _ := c.stored("/test/state/t"); value != `{"state":"melted"}` || c.startsOf("t") != 0 {
			t.Errorf("the state is %s, and it was started %d times", value, c.startsOf("t"))
		}
		c.put("/test/state/t", `{"state":"runnable"}`)
		if err := n.leave(); err != nil {
			t.Fatal(err)
		}
		c.join("m")
		c.eventually(10*time.Second, "it is killed, as it was told", func() bool { return c.status("t") == windlass.StatusKilled })
	})
}

// TestStates_M57_WhatIsParkedCostsNoGoroutineAndWakesUpInTime lets many tasks sleep
// until a few moments, and pauses many others.
func TestStates_M57_WhatIsParkedCostsNoGoroutineAndWakesUpInTime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		const count = 2000
		wake := time.Now().Add(time.Hour)
		woken := map[string]time.Time{}
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil })
			cfg.Handlers["sleeps"] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				woken[claim.ID()] = time.Now()
				return nil
			})
		})
		c.eventually(time.Second, "it joined", func() bool { return len(c.nodes()) == 1 })
		c.settle()
		goroutines := runtime.NumGoroutine()
		for i := range count {
			id := fmt.Sprintf("t%04d", i)
			if i%2 == 0 {
				c.put("/test/state/"+id, `{"state":"paused"}`)
			} else {
				c.put("/test/state/"+id, fmt.Sprintf(`{"state":"sleeping","until":%q}`, wake.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano)))
			}
			c.put("/test/tasks/"+id, `{"type":"sleeps"}`)
		}
		c.eventually(time.Minute, "all are parked", func() bool { return len(n.Tasks()) == count })
		c.sleep(time.Minute)
		if now := runtime.NumGoroutine(); now > goroutines+count/10 {
			t.Errorf("%d goroutines for %d parked tasks, and %d before", now, count, goroutines)
		}
		leases := map[broker.SessionID]bool{}
		kvs, _, err := broker.Collect(t.Context(), c.store, "/test/")
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			if kv.Session != 0 {
				leases[kv.Session] = true
			}
		}
		if len(leases) != 1 {
			t.Errorf("%d leases", len(leases))
		}
		c.sleep(2 * time.Hour)
		if len(woken) != count/2 {
			t.Errorf("%d of %d woke up", len(woken), count/2)
		}
		for id, at := range woken {
			var i int
			if _, err := fmt.Sscanf(id, "t%d", &i); err != nil {
				t.Fatal(err)
			}
			if late := at.Sub(wake.Add(time.Duration(i) * time.Millisecond)); late < 0 || late > 50*time.Millisecond {
				t.Errorf("%s woke up %v late", id, late)
			}
		}
	})
}

func TestStates_M57_ParkedTasksMoveOnDrainAndFailover(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(10, windlass.Spec{})
		c.eventually(5*time.Second, "they run", c.allRunning(10))
		for i := range 10 {
			m := []statemachine.Message{statemachine.Pause, statemachine.Sleep}[i%2]
			if _, err := c.commandTo(fmt.Sprintf("task-%03d", i), command(m)); err != nil {
				t.Fatal(err)
			}
		}
		b := c.join("b")
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "b has them", func() bool { return len(b.Tasks()) == 10 })
		for i, task := range b.Tasks() {
			want := []statemachine.State{statemachine.Paused, statemachine.Sleeping}[i%2]
			if !task.Parked || task.State != want || task.Since.IsZero() {
				t.Errorf("%+v, want it %s", task, want)
			}
		}
		c.sleep(2 * time.Hour)
		if n := c.runningOn("b"); n != 5 {
			t.Errorf("%d of those that slept run on b", n)
		}
	})
}

// TestStates_M58_AreSeenOnTheNodeAndInTheStore compares the state, and when it was
// entered, as told by the node, by a client, and by the store.
func TestStates_M58_AreSeenOnTheNodeAndInTheStore(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.submit(1, windlass.Spec{})
		c.eventually(5*time.Second, "it runs", c.allRunning(1))
		for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Sleep, statemachine.Run} {
			c.sleep(time.Minute)
			before := time.Now()
			d, err := c.commandTo("task-000", command(m))
			if err != nil {
				t.Fatal(err)
			}
			state, _ := statemachine.Next(statemachine.Paused, m)
			held := n.Tasks()[0]
			value, _ := c.stored("/test/state/task-000")
			record, err := statemachine.Parse([]byte(value))
			if err != nil || held.State != state || d.State.State != state || record.State != state {
				t.Errorf("after %s the node says %s, the client %s, the store %s, %v", m, held.State, d.State.State, record.State, err)
			}
			for _, at := range []time.Time{held.Since, *d.State.ChangedAt, *record.ChangedAt} {
				if at.Before(before) || at.After(time.Now()) {
					t.Errorf("after %s: entered at %v, and it was sent at %v", m, at, before)
				}
			}
		}
	})
}

// TestStates_M56_TheLayoutIsByteForByteThatOfTheContract reads what is stored with
// a plain etcd client, in real time.
func TestStates_M56_TheLayoutIsByteForByteThatOfTheContract(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Socket: true, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	plain, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + server.Socket()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	get := func(key string) string {
		t.Helper()
		answer, err := plain.Get(t.Context(), key)
		if err != nil || len(answer.Kvs) != 1 {
			t.Fatalf("%s: %v, %v", key, answer, err)
		}
		return string(answer.Kvs[0].Value)
	}
	store := server.Broker()
	defer store.Close()
	client, err := windlass.NewClient(store, "test")
	if err != nil {
		t.Fatal(err)
	}
	send := func(command statemachine.Command) windlass.SentCommand {
		t.Helper()
		sent, err := client.SendTask(t.Context(), "a", command)
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	if err := client.Submit(t.Context(), windlass.Submission{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2130, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, command := range map[string]statemachine.Command{
		`{"message":"pause"}`: command(statemachine.Pause), `{"message":"error","error":"no route"}`: statemachine.Fail("no route"),
		`{"message":"sleep","until":"2130-01-02T03:04:05Z"}`: statemachine.SleepUntil(at),
	} {
		send(command)
		if got := get("/test/commands/a"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	send(statemachine.SleepUntil(at))
	node, err := windlass.NewNode(windlass.Config{
		Broker: server.Broker(), Namespace: "test", Name: "n",
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil })},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if _, err := client.Wait(t.Context(), "a", windlass.StatusSleeping); err != nil {
		t.Fatal(err)
	}
	if got := get("/test/tasks/a/owner"); got != `{"node":"n"}` {
		t.Errorf("owner %s", got)
	}
	if got := get("/test/state/a"); !strings.HasPrefix(got, `{"state":"sleeping","until":"2130-01-02T03:04:05Z",`) {
		t.Errorf("state %s", got)
	}
	if _, err := client.AwaitCommand(t.Context(), send(statemachine.Fail("no route"))); err != nil {
		t.Fatal(err)
	}
	var state struct {
		Errors []map[string]string
	}
	got := get("/test/state/a")
	if err := json.Unmarshal([]byte(got), &state); err != nil || len(state.Errors) != 1 || len(state.Errors[0]) != 2 ||
		state.Errors[0]["error"] != "no route" || !strings.Contains(got, `"errors":[{"timestamp":"`) {
		t.Fatalf("state %s, %v", got, err)
	}
	if _, err := time.Parse(time.RFC3339Nano, state.Errors[0]["timestamp"]); err != nil {
		t.Error(err)
	}
}
