//go:build e2e

package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/pause"
)

// halt does something to servers while none of them runs.
func halt(t *testing.T, servers []*zktest.Server, do func(*zktest.Server) error) {
	t.Helper()
	for _, s := range servers {
		s.Kill()
	}
	for _, s := range servers {
		if err := errors.Join(do(s), s.Run()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAfterARestoreAllBeginsAnew restores backups of servers while a broker runs. Those of
// one, or of servers that were halted for it, number transactions anew as they had before.
// Three that were not count on from the number of their next leader, which nobody has seen,
// so that only what is missing tells.
func TestAfterARestoreAllBeginsAnew(t *testing.T) {
	options := zktest.Options{Tick: testTick}
	t.Run("one", func(t *testing.T) { afterARestore(t, true, zktest.Start(t, options)) })
	t.Run("three", func(t *testing.T) { afterARestore(t, true, zktest.StartEnsemble(t, options).Members...) })
	t.Run("three that ran on", func(t *testing.T) { afterARestore(t, false, zktest.StartEnsemble(t, options).Members...) })
}

func afterARestore(t *testing.T, halted bool, servers ...*zktest.Server) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.Address())
	}
	b := openTest(t, testConfig(addresses...))
	const long = 3 * time.Second // nearly as long as they grant
	kept := mustGrant(t, b, long)
	mustCommit(t, b, put("/n/a", []byte("kept")), putSession("/n/old", kept.ID))
	if halted {
		halt(t, servers, (*zktest.Server).Save)
	} else {
		for _, s := range servers {
			if err := s.Save(); err != nil {
				t.Fatal(err)
			}
		}
	}
	young := mustGrant(t, b, long)
	for _, id := range []broker.SessionID{kept.ID, young.ID} {
		if _, err := b.KeepAlive(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	var last broker.Revision
	for range 50 {
		last = mustCommit(t, b, put("/n/a", []byte("lost")), put("/n/b", []byte("lost")))[1].Revision
	}
	watch := make(chan error, 1)
	go func() {
		for _, err := range b.Watch(ctx, "/n/", last+1) {
			if err != nil {
				watch <- err
			}
		}
	}()
	halt(t, servers, (*zktest.Server).Restore)
	for name, id := range map[string]broker.SessionID{"old": kept.ID, "young": young.ID} {
		_, err := b.KeepAlive(ctx, id)
		for ctx.Err() == nil && broker.Temporary(err) {
			_, err = b.KeepAlive(ctx, id)
		}
		if !errors.Is(err, broker.ErrSessionExpired) {
			t.Errorf("the %s session: %v", name, err)
		}
		t.Logf("the %s session: %v", name, err)
		if name == "old" && !strings.Contains(err.Error(), "set back") {
			t.Error("it does not say why")
		}
	}
	if err := <-watch; !broker.Temporary(err) {
		t.Errorf("the watch ended with %v", err)
	}
	kvs, now, err := broker.Collect(ctx, b, "/n/")
	if err != nil || len(kvs) != 1 || string(kvs[0].Value) != "kept" {
		t.Errorf("%+v, %v", kvs, err)
	}
	if halted != (now < last) {
		t.Errorf("the revisions go on from %d; there had been %d", now, last)
	}
	if now < last {
		for _, err := range b.Watch(ctx, "/n/", last+1) {
			if !errors.Is(err, broker.ErrCompacted) {
				t.Errorf("a watch from what is lost: %v", err)
			}
		}
	}
	again := mustGrant(t, b, time.Second)
	mustCommit(t, b, putSession("/n/c", again.ID))
	for batch, err := range b.Watch(ctx, "/n/", now+1) {
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Events) > 0 && batch.Events[0].KV.Key == "/n/c" {
			break
		}
	}
}

// TestNodesOutliveARestore has two nodes run tasks of which the backup knows one.
func TestNodesOutliveARestore(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick, Settings: []string{"maxSessionTimeout=60000"}})
	config := testConfig(server.Address())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	starts, ends, left := make(chan string, 100), make(chan string, 100), make(chan error, 100)
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer cancel()
	for _, name := range []string{"n1", "n2"} {
		store := openTest(t, config)
		node, err := windlass.NewNode(windlass.Config{Broker: store, Name: name, SessionTTL: 5 * time.Second,
			Events: events.Node{Left: func(_ string, cause error, _ []string) { left <- cause }},
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
				starts <- c.ID()
				<-ctx.Done()
				ends <- c.ID()
				return ctx.Err()
			})}})
		if err != nil {
			t.Fatal(err)
		}
		nodes.Go(func() {
			if err := node.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	b := openTest(t, config)
	client, err := windlass.NewClient(b, "")
	if err != nil {
		t.Fatal(err)
	}
	submit := func(id string) {
		t.Helper()
		if err := client.Submit(ctx, windlass.Submission{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	await := func(told <-chan string, id string) {
		t.Helper()
		for got := ""; got != id; {
			select {
			case got = <-told:
			case <-ctx.Done():
				t.Fatalf("nothing was heard of %s", id)
			}
		}
	}
	submit("kept")
	await(starts, "kept")
	if err := server.Save(); err != nil {
		t.Fatal(err)
	}
	submit("lost")
	await(starts, "lost")
	pause.For(ctx, 3*time.Second) // each session is renewed, and what the backup has of it is of the past
	halt(t, []*zktest.Server{server}, (*zktest.Server).Restore)
	await(ends, "lost")
	await(starts, "kept")
	// Either its session meets the server first or its copy of the tasks does.
	if err := <-left; err == nil || !strings.Contains(err.Error(), "set back") && !strings.Contains(err.Error(), "went back") {
		t.Errorf("a node does not say why its session has ended: %v", err)
	}
	submit("new")
	await(starts, "new")
	select {
	case id := <-starts:
		t.Errorf("%s was started, and had been lost or runs", id)
	default:
	}
}
