package integration_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// inVerified runs a test on an etcd and checks S1 on everything that was ever written, and S2
// unless the options allow overlaps.
func inVerified(t *testing.T, test func(t *testing.T, w *cluster)) {
	inVerifiedWith(t, windlasstest.Options{}, test)
}

func inVerifiedWith(t *testing.T, options windlasstest.Options, test func(t *testing.T, w *cluster)) {
	inClusterWith(t, options, func(t *testing.T, w *cluster) {
		following, stop := context.WithCancel(t.Context())
		log, err := history.New("test")
		w.must(err)
		log.Unannounced = true
		store := w.server.Broker()
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for batch, err := range store.Watch(following, "/test/", 1) {
				if err != nil {
					if following.Err() == nil {
						t.Errorf("the history: %v", err)
					}
					return
				}
				log.Apply(batch.Events)
			}
		}()
		defer func() {
			w.Close()
			w.Advance(time.Second)
			stop()
			<-followed
			for _, wrong := range log.Violations() {
				t.Error(wrong)
			}
		}()
		test(t, w)
	})
}

// settled returns a problem if a task neither runs once nor has ended, or if an owner key has
// no handler behind it.
func (w *cluster) settled(ids []string) string {
	kvs, _, err := broker.Collect(w.t.Context(), w.store, "/test/")
	if err != nil {
		return err.Error()
	}
	terminal := map[string]bool{}
	owned := map[string]string{}
	exists := map[string]bool{}
	for _, kv := range kvs {
		id, area := split(kv.Key)
		switch area {
		case "state":
			r, err := statemachine.Parse(kv.Value)
			terminal[id] = err == nil && r.State.Terminal()
		case "owner":
			owned[id] = string(kv.Value)
		case "tasks":
			exists[id] = true
		}
	}
	for id, owner := range owned {
		if w.Running(id) != 1 {
			return fmt.Sprintf("%s is held by %s, and %d handlers run", id, owner, w.Running(id))
		}
	}
	for _, id := range ids {
		switch {
		case terminal[id] && exists[id]:
			return id + " has ended and exists"
		case !terminal[id] && !exists[id]:
			return id + " is lost"
		case !terminal[id] && w.Running(id) != 1:
			return fmt.Sprintf("%s has %d handlers, owner %q", id, w.Running(id), owned[id])
		case terminal[id] && w.Running(id) != 0:
			return id + " has ended and runs"
		}
	}
	return ""
}

// settles waits until settled returns no problem.
func (w *cluster) settles(within time.Duration, ids []string) {
	w.t.Helper()
	start := time.Now()
	for {
		w.Advance(0)
		wrong := w.settled(ids)
		if wrong == "" {
			return
		}
		if time.Since(start) > within {
			w.t.Fatalf("not settled within %v: %s", within, wrong)
		}
		w.Advance(50 * time.Millisecond)
	}
}

// clientBehind returns a client on a connection with faults.
func (w *cluster) clientBehind(plan string) *windlass.Client {
	w.t.Helper()
	p, err := faulty.Parse(plan)
	w.must(err)
	faults := w.Connect()
	faults.Use(p)
	client := w.clientOn(faults)
	return client
}

// submitted submits n tasks and returns those that were acknowledged.
func (w *cluster) submitted(client *windlass.Client, name string, n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		if err := client.Submit(w.t.Context(), windlass.Submission{ID: id}); err == nil || windlass.AlreadySubmitted(err) {
			ids = append(ids, id)
		}
	}
	return ids
}

// split returns the task ID of a key, and which of the task's keys it is.
func split(key string) (id, area string) {
	rest := strings.TrimPrefix(key, "/test/")
	area, id, _ = strings.Cut(rest, "/")
	if name, leaf, deeper := strings.Cut(id, "/"); deeper {
		return name, leaf
	}
	return id, area
}

// restored is a broker that once lists the tasks at an old revision, as after a restore.
type restored struct {
	broker.Broker
	once atomic.Bool
}

func (r *restored) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		back := prefix == "/test/tasks/" && r.once.CompareAndSwap(true, false)
		for page, err := range r.Broker.List(ctx, prefix) {
			if back {
				page.Revision = 1
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// interceptor is a coordinator between a node and the real one.
type interceptor struct {
	coordinator.Coordinator
	claim func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result
	adopt func(ctx context.Context, ids []string) []coordinator.Result
	end   func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended
}

// intercept replaces some calls of a node's coordinator.
func intercept(with func(m *interceptor)) func(*windlass.Config) {
	return func(cfg *windlass.Config) {
		cfg.Coordinator = func(plain coordinator.Coordinator) coordinator.Coordinator {
			m := &interceptor{Coordinator: plain, claim: plain.Claim, adopt: plain.Adopt, end: plain.End}
			with(m)
			return m
		}
	}
}

func (m *interceptor) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	return m.claim(ctx, wanted)
}

func (m *interceptor) Adopt(ctx context.Context, ids []string) []coordinator.Result {
	return m.adopt(ctx, ids)
}

func (m *interceptor) End(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
	return m.end(ctx, endings)
}

// finiteSome makes two of three tasks finite.
func finiteSome(id string) time.Duration {
	switch id[len(id)-1] % 3 {
	case 0:
		return 0
	case 1:
		return 100 * time.Millisecond
	}
	return 6 * time.Second
}

// slowToStop is a handler that returns a while after its context has ended.
func (w *cluster) slowToStop(d time.Duration) func(*windlass.Config) {
	return running(func(ctx context.Context, claim *windlass.Claim) error {
		<-ctx.Done()
		<-time.After(d)
		return ctx.Err()
	})
}
