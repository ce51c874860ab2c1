package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
	"github.com/windlass-go/windlass/windlasstest"
)

// After any number of tasks, commands, jobs, elections and nodes that are over and
// forgotten, the store has the same keys and leases as before.
func TestGrowth_NothingIsLeftOfWhatHasBeenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.Start(t.Context(), embedded.Config{UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		c := windlasstest.New(t, windlasstest.Options{Open: func() broker.Broker { return server.Broker() }})
		defer c.Close()
		store := server.Broker()
		defer store.Close()
		forest, err := tree.New(store, windlasstest.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		busy := &busyFleet{t: t, cluster: c, client: c.Client(), forest: forest}
		a, b := c.Start("a", busy.config()), c.Start("b", busy.config())
		var first []string
		for n := range 4 {
			busy.day(n)
			left := contents(t, store)
			if n == 0 {
				first = left
			}
			if fmt.Sprint(left) != fmt.Sprint(first) {
				t.Errorf("after day %d there are %q, after the first there were %q", n, left, first)
			}
		}
		busy.must(a.Stop())
		busy.must(b.Stop())
		_, before, err := broker.Collect(t.Context(), store, prefix)
		busy.must(err)
		c.Advance(time.Hour)
		kvs, revision, err := broker.Collect(t.Context(), store, prefix)
		busy.must(err)
		if left := contents(t, store); len(kvs) != 1 || left[1] != "0 leases" || revision != before {
			t.Errorf("without nodes there are %q, and an hour later %d revisions more", left, revision-before)
		}
	})
}

// contents returns the keys of a store, and the number of its leases.
func contents(t *testing.T, store *etcd.Broker) (all []string) {
	kvs, _, err := broker.Collect(t.Context(), store, prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		all = append(all, kv.Key)
	}
	leases, bare, err := store.Leases(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if bare > 0 {
		t.Errorf("%d of %d leases hold no key", bare, leases)
	}
	return append(all, fmt.Sprint(leases, " leases"))
}

// busyFleet uses every feature.
type busyFleet struct {
	t       *testing.T
	cluster *windlasstest.Cluster
	client  *windlass.Client
	forest  *tree.Tree
}

func (f *busyFleet) config() windlass.Config {
	return windlass.Config{Handlers: map[string]windlass.NewHandler{
		"quick": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
			return c.Checkpoint(ctx, 1)
		}),
		"long": windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
			<-ctx.Done()
			return ctx.Err()
		}),
	}}
}

func (f *busyFleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// day uses all features and deletes everything that has ended.
func (f *busyFleet) day(n int) {
	f.tasks(n)
	f.detached(n)
	f.jobs(n)
	f.nodes(n)
	f.cluster.Advance(3 * time.Minute) // sessions of killed nodes end, and late records are written
	_, err := f.forest.Clear(f.t.Context(), false)
	f.must(err)
	_, err = f.client.Prune(f.t.Context(), windlass.Retention{Age: time.Nanosecond}, windlass.Filter{}, false)
	f.must(err)
	f.cluster.Advance(75 * time.Minute) // the deaths of nodes are kept for an hour
}

func (f *busyFleet) tasks(n int) {
	ctx := f.t.Context()
	for i := range 5 {
		id := fmt.Sprintf("quick-%d-%d", n, i)
		f.cluster.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "quick"}, Props: json.RawMessage("1")})
		f.cluster.WaitFor(time.Minute, id, windlass.StatusCompleted)
	}
	long := fmt.Sprint("long-", n)
	f.cluster.Submit(windlass.Submission{ID: long, Spec: windlass.Spec{Type: "long"}})
	f.cluster.WaitFor(time.Minute, long, windlass.StatusRunning)
	for _, message := range []statemachine.Message{statemachine.Pause, statemachine.Run, statemachine.Kill} {
		sent, err := f.client.SendTask(ctx, long, statemachine.Command{Message: message})
		f.must(err)
		_, err = f.client.AwaitCommand(ctx, sent)
		f.must(err)
	}
	// No node carries out this command.
	waits := fmt.Sprint("waits-", n)
	f.cluster.Submit(windlass.Submission{ID: waits, Spec: windlass.Spec{Type: "nobody"}})
	_, err := f.client.SendTask(ctx, waits, statemachine.Command{Message: statemachine.Pause})
	f.must(err)
	f.must(f.client.Delete(ctx, waits))
}

func (f *busyFleet) detached(n int) {
	ctx := f.t.Context()
	for range 2 {
		f.cluster.Submit(windlass.Submission{ID: fmt.Sprint("script-", n), Spec: windlass.Spec{Type: "script"}, Rerun: true})
		d, err := lease.New(f.client, nil).Dequeue(ctx, "script", "shell", 0)
		f.must(err)
		f.must(lease.New(f.client, nil).Complete(ctx, d.ID, d.Token, json.RawMessage(`"done"`)))
	}
	// The lease of this one ends before its task does.
	f.cluster.Submit(windlass.Submission{ID: fmt.Sprint("forgotten-", n), Spec: windlass.Spec{Type: "script"}})
	_, err := lease.New(f.client, nil).Dequeue(ctx, "script", "shell", 0)
	f.must(err)
	f.cluster.Advance(time.Minute)
	f.must(f.client.Delete(ctx, fmt.Sprint("forgotten-", n)))
}

func (f *busyFleet) jobs(n int) {
	name := fmt.Sprint("crawl", n)
	queued, err := f.forest.Queue(f.t.Context(),
		tree.Request{Name: name, Type: "quick"},
		tree.Request{Name: "page", Type: "quick", Parent: tree.Path(name + "_quick")})
	f.must(err)
	for _, q := range queued {
		f.cluster.WaitFor(time.Minute, q.ID, windlass.StatusCompleted)
	}
}

// nodes starts two nodes and makes them candidates. One gets commands and stops, the
// other is killed.
func (f *busyFleet) nodes(n int) {
	ctx := f.t.Context()
	guest, doomed := f.cluster.Start(fmt.Sprint("guest-", n), f.config()), f.cluster.Start(fmt.Sprint("doomed-", n), f.config())
	for _, node := range []*windlasstest.Node{guest, doomed} {
		e, err := node.Election("leader", election.Events{})
		f.must(err)
		f.must(e.Start())
	}
	f.cluster.Settle(time.Minute)
	for _, command := range []string{operate.Freeze, operate.Unfreeze, operate.Balance} {
		f.must(operate.New(f.client).Send(ctx, guest.Name(), operate.Command{Command: command}))
	}
	f.cluster.Advance(time.Second)
	doomed.Kill()
	f.cluster.Advance(time.Minute)
	f.must(guest.Stop())
}
