package integration_test

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
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// commandTo sends a command and waits until it was carried out.
func (c *cluster) commandTo(id string, command statemachine.Command) (windlass.TaskDetail, error) {
	c.t.Helper()
	sent, err := c.client.SendTask(c.t.Context(), id, command)
	if err != nil {
		return windlass.TaskDetail{}, err
	}
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errors.New("nobody carries it out"))
	defer cancel()
	defer c.Advance(0) // who sent it may read that it was carried out before the node hears so
	return c.client.AwaitCommand(ctx, sent)
}

// command is commandTo for a command that must be carried out.
func (c *cluster) command(id string, command statemachine.Command) windlass.TaskDetail {
	c.t.Helper()
	d, err := c.commandTo(id, command)
	c.must(err)
	return d
}

// stored returns the value of a key, empty if there is none, and its revision.
func (c *cluster) stored(key string) (string, broker.Revision) {
	c.t.Helper()
	kv, err := c.store.Get(c.t.Context(), key)
	if errors.Is(err, broker.ErrNotFound) {
		return "", 0
	}
	c.must(err)
	return string(kv.Value), kv.Modified
}

// command returns a command with a message and its parameters.
func command(m statemachine.Message) statemachine.Command {
	switch m {
	case statemachine.Sleep:
		return statemachine.SleepUntil(time.Now().Add(time.Hour))
	case statemachine.Error:
		return statemachine.Fail("by command")
	}
	return statemachine.Command{Message: m}
}

// statefulRun is the function of a stateful handler.
type statefulRun = func(context.Context, *windlass.Claim, <-chan statemachine.Command) statemachine.Command

// stateful gives a node a stateful handler for a type.
func stateful(taskType string, do statefulRun) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Handlers[taskType] = windlass.Stateful(do) }
}

// following is a stateful handler that returns the message it receives.
func (c *cluster) following(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
	for {
		select {
		case m := <-messages:
			if m.Message != statemachine.Run && m.Message != statemachine.Checkpoint {
				return m
			}
		case <-ctx.Done():
			return statemachine.Command{Message: statemachine.Release}
		}
	}
}

// Each message is sent to a task in each state, for both kinds of handlers.
func TestStates_M50_M51_EveryCommandInEveryState(t *testing.T) {
	into := map[statemachine.State]statemachine.Message{statemachine.Sleeping: statemachine.Sleep, statemachine.Paused: statemachine.Pause}
	becomes := map[statemachine.State]windlass.Status{
		statemachine.Runnable: windlass.StatusRunning, statemachine.Fault: windlass.StatusSleeping, // which is what the error handler decides
	}
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", stateful("stateful", c.following))
		for _, kind := range []string{"plain", "stateful"} {
			for _, state := range []statemachine.State{statemachine.Runnable, statemachine.Sleeping, statemachine.Paused} {
				for _, m := range statemachine.Messages {
					id := fmt.Sprintf("%s-%s-%s", kind, state, m)
					c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: kind}})
					c.WaitFor(5*time.Second, id, windlass.StatusRunning)
					c.Advance(time.Millisecond)
					if state != statemachine.Runnable {
						c.command(id, command(into[state]))
					}
					before := c.task(id)
					d, err := c.commandTo(id, command(m))
					next, refused := statemachine.Next(state, m)
					if refused != nil {
						if !errors.Is(err, windlass.ErrDiscarded) || c.status(id) != before.Status {
							t.Errorf("%s: %s, %v", id, c.status(id), err)
						}
						continue
					}
					want := windlass.Status(next)
					if s, ok := becomes[next]; ok {
						want = s
					}
					c.WaitUntil(5*time.Second, fmt.Sprintf("%s is %s; it is %s, %v", id, want, d.Status, err), func() bool { return c.status(id) == want })
					if keeps := state == statemachine.Sleeping && (m == statemachine.Checkpoint || m == statemachine.Release || m == statemachine.Error); keeps && !d.Until.Equal(*before.Until) {
						t.Errorf("%s: it slept until %v and does until %v", id, before.Until, d.Until)
					}
					if next == statemachine.Fault && (len(d.Errors) != 1 || d.Errors[0].Error != "by command") {
						t.Errorf("%s: %+v", id, d.Errors)
					}
					if value, _ := c.stored("/test/commands/" + id); value != "" {
						t.Errorf("%s: the command is still there: %s", id, value)
					}
					if next.Terminal() {
						var finished *windlass.FinishedError
						if _, err := c.client.SendTask(t.Context(), id, command(m)); !errors.As(err, &finished) || finished.State != next {
							t.Errorf("%s: another command: %v", id, err)
						}
					}
				}
			}
		}
	})
}

func TestStates_M52_AnInvalidCommandIsDiscardedAndWedgesNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		discarded := map[string]int{}
		c.join("n", func(cfg *windlass.Config) {
			cfg.Events.TaskCommanded = func(task, _ string, err error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if err != nil {
					discarded[task]++
				}
			}
		})
		c.submit(3, windlass.Spec{})
		c.WaitUntil(5*time.Second, "they run", c.allRunning(3))
		c.command("task-001", command(statemachine.Pause))
		c.command("task-002", command(statemachine.Sleep))
		for i, status := range []windlass.Status{windlass.StatusRunning, windlass.StatusPaused, windlass.StatusSleeping} {
			id := fmt.Sprintf("task-%03d", i)
			for n, bad := range []string{`{"message":"sleep"}`, `{"message":"error"}`, `{`, `{"message":"dance"}`, "", "waltz"} {
				c.put("/test/commands/"+id, bad)
				c.WaitUntil(5*time.Second, "it is gone", func() bool { value, revision := c.stored("/test/commands/" + id); return value == "" && revision == 0 })
				c.mu.Lock()
				if discarded[id] != n+1 {
					t.Errorf("%s %q: %d were discarded, want %d", id, bad, discarded[id], n+1)
				}
				c.mu.Unlock()
			}
			c.wantStatus(id, status)
			if d, err := c.commandTo(id, command(statemachine.Kill)); err != nil || d.Status != windlass.StatusKilled {
				t.Errorf("%s: %s, %v", id, d.Status, err)
			}
		}
		for _, bad := range []statemachine.Command{{Message: "dance"}, {Message: statemachine.Sleep}, {Message: statemachine.Error}, {}} {
			var input *windlass.BadInputError
			if _, err := c.client.SendTask(t.Context(), "task-000", bad); !errors.As(err, &input) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := c.client.SendTask(t.Context(), "nobody", command(statemachine.Run)); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a task that is not there: %v", err)
		}
	})
}

// The handler reads its state from the store when it starts.
func TestStates_M53_AStateIsStoredBeforeItTakesEffectAndOnlyIfItChanged(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var seen []string
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			value, _ := c.stored("/test/state/" + claim.ID())
			record, err := statemachine.Parse([]byte(value))
			c.mu.Lock()
			seen = append(seen, fmt.Sprint(record.State, err))
			c.mu.Unlock()
			return untilStopped(ctx, claim)
		}))
		c.submit(1, windlass.Spec{})
		c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
		for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Run, statemachine.Sleep, statemachine.Run} {
			c.command("task-000", command(m))
		}
		c.command("task-000", statemachine.SleepUntil(time.Now().Add(time.Minute)))
		c.WaitUntil(2*time.Minute, "it runs", c.allRunning(1))
		if got := strings.Join(seen, " "); got != "runnable<nil> runnable<nil> runnable<nil> runnable<nil>" {
			t.Errorf("handlers started in the states %s", got)
		}
		_, before := c.stored("/test/state/task-000")
		for _, m := range []statemachine.Message{statemachine.Run, statemachine.Checkpoint} {
			c.command("task-000", command(m))
		}
		if _, after := c.stored("/test/state/task-000"); after != before {
			t.Errorf("a state that did not change was stored")
		}
		c.command("task-000", command(statemachine.Pause))
		_, before = c.stored("/test/state/task-000")
		c.command("task-000", command(statemachine.Pause))
		if _, after := c.stored("/test/state/task-000"); after != before {
			t.Errorf("paused was stored when it was paused")
		}
	})
}

// Writes of states fail while tasks sleep, wake up, fail and are paused.
func TestStates_M54_ABrokerThatFailsEndsNoTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		fails := also("fails", failingOnce)
		nodes := []*windlasstest.Node{c.join("a", fails), c.join("b", fails)}
		for i := range 6 {
			kind := []string{"fails", "stays"}[i%2]
			c.Submit(windlass.Submission{ID: fmt.Sprintf("t%d", i), Spec: windlass.Spec{Type: kind, Retry: &windlass.Retry{Errors: -1}}})
		}
		for _, plan := range []string{
			`lose-request 1s on commit below "/test/state/"`, `lose-reply 1s on commit below "/test/state/"`, `refuse on commit`,
			"lose-reply 1s on commit chance 0.7", `late 3s on commit below "/test/state/" chance 0.5`,
		} {
			for _, n := range nodes {
				n.Use(plan)
			}
			for i, m := range []statemachine.Message{statemachine.Pause, statemachine.Sleep, statemachine.Run} {
				c.sendTask(fmt.Sprintf("t%d", 2*i+1), m)
			}
			c.Advance(20 * time.Second)
			for i := range 6 {
				if s := c.status(fmt.Sprintf("t%d", i)); statemachine.State(s).Terminal() {
					t.Errorf("under %s t%d has ended as %s", plan, i, s)
				}
			}
			for _, n := range nodes {
				n.Use("")
			}
			c.Advance(time.Minute)
			for i, want := range []windlass.Status{windlass.StatusPaused, windlass.StatusSleeping, windlass.StatusRunning} {
				id := fmt.Sprintf("t%d", 2*i+1)
				c.WaitUntil(time.Minute, fmt.Sprintf("%s is %s after %s; it is %s", id, want, plan, c.status(id)), func() bool { return c.status(id) == want })
			}
			for i := 1; i < 6; i += 2 {
				c.command(fmt.Sprintf("t%d", i), command(statemachine.Run))
			}
		}
	})
}

func TestStates_M54_AnUnreadableStateIsLeftAloneUntilItIsMended(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.put("/test/tasks/t", "")
		c.put("/test/state/t", `{"state":"melted"}`)
		n := c.join("n")
		c.WaitUntil(5*time.Second, "it is parked", func() bool { return len(n.Tasks()) == 1 && n.Tasks()[0].Parked })
		c.wantStatus("t", windlass.StatusFault)
		c.sendTask("t", statemachine.Kill)
		c.Advance(time.Minute)
		if value, _ := c.stored("/test/state/t"); value != `{"state":"melted"}` || c.startsOf("t") != 0 {
			t.Errorf("the state is %s, and it was started %d times", value, c.startsOf("t"))
		}
		c.put("/test/state/t", `{"state":"runnable"}`)
		c.must(n.Stop())
		c.join("m")
		c.WaitFor(10*time.Second, "t", windlass.StatusKilled)
	})
}

// Many tasks sleep, and as many others are paused.
func TestStates_M57_WhatIsParkedCostsNoGoroutineAndWakesUpInTime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		const count = 2000
		wake := time.Now().Add(time.Hour)
		woken := map[string]time.Time{}
		n := c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			woken[claim.ID()] = time.Now()
			return nil
		}))
		c.awaitNodes(1)
		c.Advance(0)
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
		c.WaitUntil(time.Minute, "all are parked", func() bool { return len(n.Tasks()) == count })
		c.Advance(time.Minute)
		if now := runtime.NumGoroutine(); now > goroutines+count/10 {
			t.Errorf("%d goroutines for %d parked tasks, and %d before", now, count, goroutines)
		}
		leases := map[broker.SessionID]bool{}
		for _, kv := range c.collect("/test/") {
			if kv.Session != 0 {
				leases[kv.Session] = true
			}
		}
		if len(leases) != 1 {
			t.Errorf("%d leases", len(leases))
		}
		c.Advance(2 * time.Hour)
		if len(woken) != count/2 {
			t.Errorf("%d of %d woke up", len(woken), count/2)
		}
		for id, at := range woken {
			var i int
			_, err := fmt.Sscanf(id, "t%d", &i)
			c.must(err)
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
		c.WaitUntil(5*time.Second, "they run", c.allRunning(10))
		for i := range 10 {
			c.command(fmt.Sprintf("task-%03d", i), command([]statemachine.Message{statemachine.Pause, statemachine.Sleep}[i%2]))
		}
		b := c.join("b")
		c.must(a.Drain(t.Context()))
		c.WaitUntil(5*time.Second, "b has them", func() bool { return len(b.Tasks()) == 10 })
		for i, task := range b.Tasks() {
			want := []statemachine.State{statemachine.Paused, statemachine.Sleeping}[i%2]
			if !task.Parked || task.State != want || task.Since.IsZero() {
				t.Errorf("%+v, want it %s", task, want)
			}
		}
		c.Advance(2 * time.Hour)
		if n := c.runningOn("b"); n != 5 {
			t.Errorf("%d of those that slept run on b", n)
		}
	})
}

// The node, a client and the store report the same state, entered at the same time.
func TestStates_M58_AreSeenOnTheNodeAndInTheStore(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.submit(1, windlass.Spec{})
		c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
		for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Sleep, statemachine.Run} {
			c.Advance(time.Minute)
			before := time.Now()
			d := c.command("task-000", command(m))
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

// This reads the store with a plain etcd client, in real time.
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
		`{"message":"run"}`: command(statemachine.Run), `{"message":"error","error":"no route"}`: statemachine.Fail("no route"),
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
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(done)},
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
