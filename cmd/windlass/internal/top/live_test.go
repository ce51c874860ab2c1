//go:build e2e

package top

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/tree"
)

// live is a screen on a real etcd, with two nodes.
type live struct {
	*testing.T
	m      *model
	store  *faulty.Broker
	client *windlass.Client
}

func newLive(t *testing.T) *live {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &live{T: t, store: faulty.Wrap(server.Broker(), nil)}
	for _, name := range []string{"n1", "n2"} {
		node, err := windlass.NewNode(windlass.Config{Broker: server.Broker(), Name: name, Capacity: 100, SessionTTL: 15 * time.Second,
			Handlers: map[string]windlass.NewHandler{"wait": windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
				<-ctx.Done()
				return ctx.Err()
			})}})
		if err != nil {
			t.Fatal(err)
		}
		stand, err := node.Election("reports", election.Events{})
		if err != nil {
			t.Fatal(err)
		}
		if err := stand.Start(); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = node.Run(ctx) }) // it ends with ctx
	}
	if l.client, err = windlass.NewClient(l.store, windlass.NamespaceDefault); err != nil {
		t.Fatal(err)
	}
	f := newFeed(l.client, l.store, windlass.NamespaceDefault)
	running.Go(func() { f.run(ctx) })
	c := Config{Broker: l.store, Client: l.client, Namespace: windlass.NamespaceDefault, Column: ByID, Refresh: RefreshDefault}
	l.m = c.model(f.take, f.showTree, &control{ctx: ctx, client: l.client, broker: l.store, namespace: windlass.NamespaceDefault})
	l.m.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	return l
}

// does presses keys and waits for what the last one has begun.
func (l *live) does(keys ...string) {
	for _, k := range keys {
		if _, command := l.m.Update(pressOf(k)); command != nil {
			l.m.Update(command())
		}
	}
}

// shows waits until the frame has all of it.
func (l *live) shows(want ...string) {
	l.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-poll.C {
		if again := l.m.apply(l.m.take()); again != nil {
			l.m.Update(again())
		}
		frame, missing := (&screen{T: l.T, m: l.m}).plain(), ""
		for _, w := range want {
			if !strings.Contains(frame, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("the frame never had %q:\n%s", missing, frame)
		}
	}
}

func (l *live) submit(n int) {
	l.Helper()
	for i := range n {
		if err := l.client.Submit(l.Context(), windlass.Submission{ID: fmt.Sprintf("t%02d", i), Spec: windlass.Spec{Type: "wait", Weight: 2}}); err != nil {
			l.Fatal(err)
		}
	}
}

func TestTop_ShowsAndDirectsARealCluster(t *testing.T) {
	l := newLive(t)
	l.does("2")
	l.shows("n1", "n2", "ready", "live since")
	l.submit(10)
	l.shows("10 tasks  10 running", "10/100") // five of weight 2 each
	if got := sumOf(l.m.header.rates.claims); got < 9 {
		t.Errorf("it has seen %d claims of 10 tasks", got)
	}

	l.does("1", "p", "y")
	l.shows("pause t00: carried out; it is paused", "1 paused")
	l.does("r", "y")
	l.shows("10 tasks  10 running")
	l.does("down", "z", "1", "h", "enter", "y")
	l.shows("sleep t01: carried out; it is sleeping", "1 sleeping")
	l.does("enter")
	l.shows("task t01", "status       sleeping", "why", "history")
	l.does("esc", "r", "y", "l", "y")
	l.shows("release t01: carried out", "10 running")
	l.does("down", "x", "y")
	l.shows("kill t02: carried out; it is killed", "1 killed")
	l.does("p", "y")
	l.shows("FAILED pause t02")

	l.does("2", "d", "y")
	l.shows("drain n1: sent", "draining", "9 running")
	l.shows("░░░░░░░░ 0/100", "18/100")
	if sumOf(l.m.header.rates.moves) == 0 {
		t.Error("it has seen no moves")
	}
	l.does("u", "y", "f", "y")
	l.shows("frozen")
	l.does("b", "y")
	l.shows("balance n1: sent")

	l.does("3")
	l.shows("reports")
	before := l.m.cluster.elections["reports"].Leader
	l.does("R", "y")
	l.shows(before + " was asked to step down")
	other := map[string]string{"n1": "n2", "n2": "n1"}[before]
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(30 * time.Second); l.m.cluster.elections["reports"].Leader != other; <-poll.C {
		if l.m.apply(l.m.take()); time.Now().After(end) {
			t.Fatalf("%s never led", other)
		}
	}
}

func TestTop_FollowsTheTreeWhileItIsShown(t *testing.T) {
	l := newLive(t)
	jobs, err := tree.New(l.store, windlass.NamespaceDefault)
	if err != nil {
		t.Fatal(err)
	}
	queue := func(name string, parent tree.Path) {
		if _, err := jobs.Queue(t.Context(), tree.Request{Name: name, Type: "wait", Parent: parent}); err != nil {
			t.Fatal(err)
		}
	}
	queue("fetch", "")
	l.does("4")
	l.shows("1 jobs", "fetch")
	queue("parse", "fetch_wait")
	l.shows("2 jobs", "parse")
	l.does("1", "4")
	queue("report", "")
	l.shows("3 jobs", "report")
}

func TestTop_ReportsAnOutageAndItsEnd(t *testing.T) {
	l := newLive(t)
	l.submit(2)
	l.shows("live since", "2 running")
	l.store.Cut()
	l.shows("TROUBLE since", "2 running")
	l.does("p", "y")
	l.store.Heal()
	l.shows("live since")
	if err := l.client.Submit(t.Context(), windlass.Submission{ID: "later", Spec: windlass.Spec{Type: "wait"}}); err != nil {
		t.Fatal(err)
	}
	l.shows("later", "3 tasks")
}

func TestOnce_ReturnsTheCurrentCluster(t *testing.T) {
	l := newLive(t)
	l.submit(3)
	l.shows("3 running")
	l.does("3")
	l.shows("reports")
	c := Config{Broker: l.store, Client: l.client, Namespace: windlass.NamespaceDefault, Address: "here", Column: ByID, Reverse: true, Refresh: RefreshDefault}
	got, err := Once(t.Context(), c, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got.Total != 3 || got.Matching != 3 || got.Counts[windlass.StatusRunning] != 3 || len(got.Tasks) != 2 || got.Tasks[0].ID != "t02" ||
		got.Tasks[0].Weight != 2 || len(got.Nodes) != 2 || got.Nodes[0].Capacity != 100 || len(got.Elections) != 1 || got.Broker != "here" {
		t.Errorf("it is %+v", got)
	}
}
