package mirror

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func space(t interface{ Fatal(...any) }) keys.Space {
	s, err := keys.New("m")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fresh is a copy made from a listing alone.
func fresh(t interface{ Fatal(...any) }, b broker.Broker, s keys.Space) *Tasks {
	kvs, revision, err := broker.Collect(context.Background(), b, s.Tasks())
	if err != nil {
		t.Fatal(err)
	}
	m := NewTasks(s, Keep{Props: true, Mine: 1})
	m.Reset(&Snapshot{KVs: kvs, Revision: revision})
	return m
}

func equal(t interface{ Fatalf(string, ...any) }, got, want *Tasks) {
	if len(got.tasks) != len(want.tasks) || !maps.Equal(got.owned, want.owned) {
		t.Fatalf("%d tasks, owned %v; want %d, %v", len(got.tasks), got.owned, len(want.tasks), want.owned)
	}
	if got.Sums() != want.Sums() || want.Sums() != summed(want) {
		t.Fatalf("%+v and %+v; want %+v", got.Sums(), want.Sums(), summed(want))
	}
	for id, w := range want.tasks {
		g := got.tasks[id]
		if g == nil || !same(g, w) || g.Owner != w.Owner || string(g.Props()) != string(w.Props()) || g.Session != w.Session {
			t.Fatalf("%s is %+v, want %+v", id, g, w)
		}
	}
}

// summed counts what a copy has, one by one.
func summed(m *Tasks) (sums Sums) {
	for id, t := range m.tasks {
		switch {
		case t.Exists() && t.Token == 0:
			sums.Unowned++
		case t.Exists():
			sums.Owned++
		case t.Token != 0:
			sums.Remnants++
		}
		if t.Token != 0 && t.Session == 1 {
			sums.Claims ^= ClaimSum(id, t.Created, t.Token)
		}
	}
	return sums
}

// However tasks, properties and owners come and go, and however the changes are
// cut into batches, the copy equals a listing, and what changed is reported.
func TestTasks_M10_ACopyFedByAWatchEqualsAListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := space(t)
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		session, err := b.Grant(context.Background(), "", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		copied := fresh(t, b, s)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			change(t, b, s, session.ID)
			if !rapid.Bool().Draw(t, "catch up") {
				continue
			}
			before := fresh(t, b, s)
			if rapid.IntRange(0, 4).Draw(t, "how") == 0 {
				kvs, revision, err := broker.Collect(context.Background(), b, s.Tasks())
				if err != nil {
					t.Fatal(err)
				}
				copied.Reset(&Snapshot{KVs: kvs, Revision: revision})
			} else {
				catchUp(t, b, s, copied, before.revision)
			}
			equal(t, copied, before)
		}
	})
}

// change makes one random change below tasks/.
func change(t *rapid.T, b broker.Broker, s keys.Space, session broker.SessionID) {
	id := rapid.SampledFrom([]string{"a", "ab", "a|b", "a-1"}).Draw(t, "task")
	ops := map[string]broker.Op{
		"submit": broker.Put(s.Task(id), []byte(rapid.SampledFrom([]string{"", `{"type":"x"}`}).Draw(t, "spec"))),
		"props":  broker.Put(s.Props(id), []byte("1")),
		"claim":  broker.PutSession(s.Owner(id), []byte(`{"node":"n"}`), session),
		"give":   broker.Delete(s.Owner(id)),
		"mean":   broker.Put(s.Handover(id), []byte(rapid.SampledFrom([]string{`{"node":"m"}`, "{"}).Draw(t, "whom"))),
		"unmean": broker.Delete(s.Handover(id)),
		"unprop": broker.Delete(s.Props(id)),
		"delete": broker.Delete(s.Task(id)),
		"tree":   broker.DeleteTree(s.Task(id) + "/"),
		"alien":  broker.Put(s.Task(id)+"/unknown", nil),
	}
	op := ops[rapid.SampledFrom(slices.Sorted(maps.Keys(ops))).Draw(t, "op")]
	if _, err := broker.CommitOne(context.Background(), b, broker.Txn{Then: []broker.Op{op}}); err != nil {
		t.Fatal(err)
	}
}

func catchUp(t *rapid.T, b broker.Broker, s keys.Space, copied *Tasks, to broker.Revision) {
	if copied.revision >= to {
		return
	}
	for batch, err := range b.Watch(context.Background(), s.Tasks(), copied.revision+1) {
		if err != nil {
			t.Fatal(err)
		}
		was := map[string]Task{}
		for id, task := range copied.tasks {
			was[id] = *task
		}
		changed := copied.Apply(batch)
		for id, task := range copied.tasks {
			if old := was[id]; !same(&old, task) && !slices.Contains(changed, id) {
				t.Fatalf("%s changed from %+v to %+v and was not reported", id, old, task)
			}
		}
		if copied.revision >= to {
			return
		}
	}
}

// Whatever happens to the watch, nothing is missed for longer than the
// reconcile period.
func TestFollow_M10_NothingIsMissedThroughBrokenStalledAndCompactedWatches(t *testing.T) {
	for _, plan := range []string{
		"break on batch chance 0.3", "stall on batch call 3", "compact on watch chance 0.5", "lose-request 100ms on list chance 0.3",
	} {
		t.Run(plan, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := space(t)
				store := memory.New()
				defer store.Close()
				b, shaky := store.Broker(), faulty.Wrap(store.Broker(), faulty.MustParse("seed 1\n"+plan))
				ctx, cancel := context.WithCancel(t.Context())
				updates := make(chan Update)
				done := make(chan struct{})
				go func() {
					defer close(done)
					Follow(ctx, Source{Broker: shaky, Prefix: s.Tasks(), Reconcile: time.Minute}, func(u Update) {
						select {
						case updates <- u:
						case <-ctx.Done():
						}
					})
				}()
				copied := NewTasks(s, Keep{Props: true, Mine: 1})
				go func() {
					for i := range 200 {
						txn := broker.Txn{Then: []broker.Op{broker.Put(s.Task(fmt.Sprint("t", i)), nil)}}
						if i%3 == 2 {
							txn.Then = []broker.Op{broker.Delete(s.Task(fmt.Sprint("t", i-1)))}
						}
						if _, err := broker.CommitOne(context.Background(), b, txn); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Second)
					}
				}()
				last := broker.Revision(0)
				for end := time.After(6 * time.Minute); ; {
					select {
					case u := <-updates:
						switch {
						case u.Snapshot != nil:
							copied.Reset(u.Snapshot)
						case u.Err == nil:
							copied.Apply(u.Batch)
						}
						if copied.Revision() < last {
							t.Errorf("the revision fell from %d to %d", last, copied.Revision())
						}
						last = copied.Revision()
						continue
					case <-end:
					}
					break
				}
				cancel()
				<-done
				equal(t, copied, fresh(t, b, s))
				_ = shaky.Close()
			})
		})
	}
}

// counted counts what is listed, and leaves the changes of one key out of what its watches
// tell, so many times.
type counted struct {
	broker.Broker
	listings, listed, told int
	leaveOut               string
	times                  int
	// copying guards the copy.
	copying sync.Mutex
}

func (c *counted) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	c.listings++
	return func(yield func(broker.Page, error) bool) {
		for page, err := range c.Broker.List(ctx, prefix) {
			c.listed += len(page.KVs)
			if !yield(page, err) {
				return
			}
		}
	}
}

func (c *counted) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		for batch, err := range c.Broker.Watch(ctx, prefix, from) {
			kept := batch.Events[:0:0]
			for _, e := range batch.Events {
				if e.KV.Key == c.leaveOut && c.times > 0 {
					c.times--
					continue
				}
				kept = append(kept, e)
			}
			batch.Events = kept
			c.told += len(kept)
			if !yield(batch, err) {
				return
			}
		}
	}
}

// followed runs a test with a copy that follows a store, and stops both.
func followed(t *testing.T, test func(b broker.Broker, c *counted, s keys.Space, copied *Tasks)) {
	synctest.Test(t, func(t *testing.T) {
		s, store := space(t), memory.New()
		defer store.Close()
		c, copied := &counted{Broker: store.Broker()}, NewTasks(space(t), Keep{Props: true, Mine: 1})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		put(t, store.Broker(), s, 0, 1000)
		go func() {
			defer close(done)
			Follow(ctx, Source{Broker: c, Prefix: s.Tasks(), Reconcile: 2 * time.Minute}, func(u Update) {
				c.copying.Lock()
				defer c.copying.Unlock()
				switch {
				case u.Err != nil:
					t.Error(u.Err)
				case u.Snapshot != nil:
					copied.Reset(u.Snapshot)
				default:
					copied.Apply(u.Batch)
				}
			})
		}()
		synctest.Wait()
		test(store.Broker(), c, s, copied)
		cancel()
		<-done
	})
}

func put(t *testing.T, b broker.Broker, s keys.Space, from, n int) {
	for i := range n {
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Put(s.Task(fmt.Sprint("t", from+i)), nil)}}); err != nil {
			t.Error(err)
		}
	}
}

// To look whether anything was missed costs what has changed since the last look, not what
// is there: a day of it, with 1,000 tasks of which one comes in ten minutes.
func TestFollow_M10_AReconcileCostsWhatChanged(t *testing.T) {
	followed(t, func(b broker.Broker, c *counted, s keys.Space, copied *Tasks) {
		const tasks = 144
		for i := range tasks {
			put(t, b, s, 1000+i, 1)
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait()
		equal(t, copied, fresh(t, b, s))
		if c.listings < 20 || c.listings > 30 || c.told < tasks || c.told > 3*tasks {
			t.Errorf("%d listings with %d keys and %d changes in 24 hours; want one listing an hour and each change twice", c.listings, c.listed, c.told)
		}
	})
}

// Where more has changed than there is, it is listed.
func TestFollow_M10_AReconcileCostsNoMoreThanWhatIsThere(t *testing.T) {
	followed(t, func(b broker.Broker, c *counted, s keys.Space, copied *Tasks) {
		const rounds = 20
		for range rounds {
			put(t, b, s, 0, 1000)
			put(t, b, s, 0, 1000)
			time.Sleep(2 * time.Minute)
		}
		synctest.Wait()
		equal(t, copied, fresh(t, b, s))
		if c.told > 2000*rounds*11/10 {
			t.Errorf("%d changes were told for %d that there were", c.told, 2000*rounds)
		}
	})
}

// A change that a watch leaves out is found by the next look; where two leave it out, by the
// next listing.
func TestFollow_M10_WhatAWatchLeftOutIsFound(t *testing.T) {
	for times, within := range map[int]time.Duration{1: 3 * time.Minute, 2: 70 * time.Minute} {
		followed(t, func(b broker.Broker, c *counted, s keys.Space, copied *Tasks) {
			c.leaveOut, c.times = s.Task("t1000"), times
			put(t, b, s, 1000, 1)
			synctest.Wait()
			c.copying.Lock()
			if copied.Get("t1000") != nil {
				t.Error("nothing was left out")
			}
			c.copying.Unlock()
			time.Sleep(within)
			synctest.Wait()
			equal(t, copied, fresh(t, b, s))
		})
	}
}

func TestNodes_KeepsCommandsInTheOrderInWhichTheyWereSent(t *testing.T) {
	s := space(t)
	m := NewNodes(s)
	put := func(key, value string, created broker.Revision) broker.Event {
		return broker.Event{KV: broker.KV{Key: key, Value: []byte(value), Created: created, Modified: created, Session: 1}}
	}
	changed := m.Apply(broker.Batch{Revision: 4, Events: []broker.Event{
		put(s.NodeCommand("n", "z"), "first", 2), put(s.NodeInfo("n"), "{}", 3), put(s.NodeCommand("n", "a"), "second", 4),
		put(s.NodeCommand("gone", "a"), "x", 4),
	}})
	if !slices.Equal(changed, []string{"n"}) || len(m.Registered()) != 1 {
		t.Errorf("changed %q, registered %v", changed, m.Registered())
	}
	commands := m.Get("n").Commands()
	if len(commands) != 2 || string(commands[0].Value) != "first" {
		t.Errorf("commands %v", commands)
	}
	changed = m.Reset(&Snapshot{Revision: 9, KVs: []broker.KV{{Key: s.NodeInfo("m"), Value: []byte("{}"), Created: 8, Modified: 8}}})
	slices.Sort(changed)
	if !slices.Equal(changed, []string{"gone", "m", "n"}) {
		t.Errorf("changed %q", changed)
	}
}

// A note that is older than the claim says nothing about where the task is going.
func TestTasks_M43_ANoteThatAClaimHasOvertakenDoesNotCount(t *testing.T) {
	s := space(t)
	store := memory.New()
	defer store.Close()
	b := store.Broker()
	session, err := b.Grant(t.Context(), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	note, claim := broker.Put(s.Handover("a"), []byte(`{"node":"m"}`)), broker.PutSession(s.Owner("a"), []byte(`{"node":"n"}`), session.ID)
	for i, step := range []struct {
		op   broker.Op
		want string
	}{{broker.Put(s.Task("a"), nil), ""}, {note, "m"}, {claim, ""}, {note, "m"}, {broker.Delete(s.Owner("a")), "m"}, {claim, ""}, {broker.Delete(s.Owner("a")), "m"}} {
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{step.op}}); err != nil {
			t.Fatal(err)
		}
		if got := fresh(t, b, s).Get("a").For; got != step.want {
			t.Errorf("step %d: it is for %q, want %q", i, got, step.want)
		}
	}
}

func FuzzParseOwner(f *testing.F) {
	for _, seed := range []string{`{"node":"a"}`, "a", "", "{", `{"node":"a/b"}`, " a "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if name := ParseOwner(value); name != "" && keys.CheckNodeName(name) != nil {
			t.Errorf("%q gave the node name %q", value, name)
		}
	})
}
