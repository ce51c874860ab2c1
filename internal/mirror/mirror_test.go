package mirror

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
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

func space(t rapid.TB) keys.Space {
	s, err := keys.New("m")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newTasks(t rapid.TB) *Tasks { return NewTasks(space(t), Keep{Props: true, Mine: 1}) }

func commit(t rapid.TB, b broker.Broker, op broker.Op) {
	t.Helper()
	if _, err := broker.CommitOne(context.Background(), b, broker.Txn{Then: []broker.Op{op}}); err != nil {
		t.Error(err)
	}
}

func grant(t rapid.TB, b broker.Broker) broker.SessionID {
	session, err := b.Grant(context.Background(), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

func listing(t rapid.TB, b broker.Broker) *Snapshot {
	kvs, revision, err := broker.Collect(context.Background(), b, space(t).Tasks())
	if err != nil {
		t.Fatal(err)
	}
	return &Snapshot{KVs: kvs, Revision: revision}
}

// fresh returns a copy made from a listing alone.
func fresh(t rapid.TB, b broker.Broker) *Tasks {
	m := newTasks(t)
	m.Reset(listing(t, b))
	return m
}

// follow applies the changes of a store to a copy until stop is called. It holds lock
// while it applies them.
func follow(t *testing.T, b broker.Broker, copied *Tasks, lock sync.Locker, reconcile time.Duration, failed func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		Follow(ctx, Source{Broker: b, Prefix: space(t).Tasks(), Reconcile: reconcile}, func(u Update) {
			lock.Lock()
			defer lock.Unlock()
			before := copied.Revision()
			switch {
			case u.Err != nil:
				failed(u.Err)
			case u.Snapshot != nil:
				copied.Reset(u.Snapshot)
			default:
				copied.Apply(u.Batch)
			}
			if copied.Revision() < before {
				t.Errorf("the revision fell from %d to %d", before, copied.Revision())
			}
		})
	})
	return func() {
		cancel()
		following.Wait()
	}
}

func equal(t rapid.TB, got, want *Tasks) {
	t.Helper()
	if len(got.tasks) != len(want.tasks) || !maps.Equal(got.owned, want.owned) {
		t.Fatalf("%d tasks, owned %v; want %d, %v", len(got.tasks), got.owned, len(want.tasks), want.owned)
	}
	if !maps.Equal(got.kept, want.kept) {
		t.Fatalf("kept %v; want %v", got.kept, want.kept)
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
	for _, job := range []string{"a", "a|b", "b"} {
		if below, failed := belowIn(want, job); got.Below(job) != below || !slices.Equal(got.FailedBelow(job), failed) {
			t.Fatalf("below %s are %d, of which failed %q; want %d, %q", job, got.Below(job), got.FailedBelow(job), below, failed)
		}
	}
}

// belowIn counts the tasks of a copy that are below a job.
func belowIn(m *Tasks, job string) (below int, failed []string) {
	for id, t := range m.tasks {
		if !strings.HasPrefix(id, job+"|") || !t.HasKey && t.Failed == NotFailed {
			continue
		}
		if below++; t.Failed != NotFailed {
			failed = append(failed, id)
		}
	}
	slices.Sort(failed)
	return below, failed
}

// summed computes the summary of a copy from its tasks.
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

// Whichever changes are made, and however they are divided into batches, the copy
// equals a listing, and all changes are reported.
func TestTasks_M10_ACopyThatAppliesAWatchEqualsAListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := space(t)
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		session, copied := grant(t, b), fresh(t, b)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			change(t, b, s, session)
			if !rapid.Bool().Draw(t, "catch up") {
				continue
			}
			want := fresh(t, b)
			if rapid.IntRange(0, 4).Draw(t, "how") == 0 {
				copied.Reset(listing(t, b))
			} else {
				catchUp(t, b, s, copied, want.revision)
			}
			equal(t, copied, want)
		}
	})
}

// change makes one random change below tasks/.
func change(t *rapid.T, b broker.Broker, s keys.Space, session broker.SessionID) {
	id := rapid.SampledFrom([]string{"a", "ab", "a|b", "a|b|c", "a-1"}).Draw(t, "task")
	ops := map[string]broker.Op{
		"submit":          broker.Put(s.Task(id), []byte(rapid.SampledFrom([]string{"", `{"type":"x"}`}).Draw(t, "spec"))),
		"props":           broker.Put(s.Props(id), []byte("1")),
		"claim":           broker.PutSession(s.Owner(id), []byte(`{"node":"n"}`), session),
		"release":         broker.Delete(s.Owner(id)),
		"handover":        broker.PutSession(s.Handover(id), []byte(rapid.SampledFrom([]string{`{"node":"m"}`, "{"}).Draw(t, "to")), session),
		"keep":            broker.Put(s.Handover(id), []byte(`{"node":"m"}`)),
		"fail":            broker.Put(s.Failed(id), []byte(`{"state":"failed"}`)),
		"forget":          broker.Delete(s.Failed(id)),
		"delete handover": broker.Delete(s.Handover(id)),
		"delete props":    broker.Delete(s.Props(id)),
		"delete":          broker.Delete(s.Task(id)),
		"delete tree":     broker.DeleteTree(s.Task(id) + "/"),
		"unknown key":     broker.Put(s.Task(id)+"/unknown", nil),
	}
	commit(t, b, ops[rapid.SampledFrom(slices.Sorted(maps.Keys(ops))).Draw(t, "op")])
}

func catchUp(t rapid.TB, b broker.Broker, s keys.Space, copied *Tasks, to broker.Revision) {
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

// Whatever happens to the watch, no change is missed for longer than the reconcile
// period.
func TestFollow_M10_SurvivesBrokenStalledAndCompactedWatches(t *testing.T) {
	for _, plan := range []string{
		"break on batch chance 0.3", "stall on batch call 3", "compact on watch chance 0.5", "lose-request 100ms on list chance 0.3",
	} {
		t.Run(plan, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := space(t)
				store := memory.New()
				defer store.Close()
				b, shaky := store.Broker(), faulty.Wrap(store.Broker(), faulty.MustParse("seed 1\n"+plan))
				copied := newTasks(t)
				stop := follow(t, shaky, copied, new(sync.Mutex), time.Minute, func(error) {})
				for i := range 200 {
					op := broker.Put(s.Task(fmt.Sprint("t", i)), nil)
					if i%3 == 2 {
						op = broker.Delete(s.Task(fmt.Sprint("t", i-1)))
					}
					commit(t, b, op)
					time.Sleep(time.Second)
				}
				time.Sleep(160 * time.Second)
				stop()
				equal(t, copied, fresh(t, b))
				_ = shaky.Close()
			})
		})
	}
}

// counted counts listings and watched changes. Its watches leave out the changes of one
// key a number of times.
type counted struct {
	broker.Broker
	listings, listed, watched int
	leaveOut                  string
	times                     int
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
			batch.Events = slices.DeleteFunc(slices.Clone(batch.Events), func(e broker.Event) bool {
				omit := e.KV.Key == c.leaveOut && c.times > 0
				if omit {
					c.times--
				}
				return omit
			})
			c.watched += len(batch.Events)
			if !yield(batch, err) {
				return
			}
		}
	}
}

// followed runs a test with a copy that follows a store of 1,000 tasks.
func followed(t *testing.T, test func(b broker.Broker, c *counted, s keys.Space, copied *Tasks)) {
	synctest.Test(t, func(t *testing.T) {
		s, store := space(t), memory.New()
		defer store.Close()
		c, copied := &counted{Broker: store.Broker()}, newTasks(t)
		put(t, store.Broker(), s, 0, 1000)
		stop := follow(t, c, copied, &c.copying, 2*time.Minute, func(err error) { t.Error(err) })
		synctest.Wait()
		test(store.Broker(), c, s, copied)
		stop()
	})
}

func put(t *testing.T, b broker.Broker, s keys.Space, from, n int) {
	for i := range n {
		commit(t, b, broker.Put(s.Task(fmt.Sprint("t", from+i)), nil))
	}
}

// A check for missed changes costs as much as has changed since the last check, not as
// much as there is. The test runs for a day, and a task is added every ten minutes.
func TestFollow_M10_AReconcileCostsWhatChanged(t *testing.T) {
	followed(t, func(b broker.Broker, c *counted, s keys.Space, copied *Tasks) {
		const tasks = 144
		for i := range tasks {
			put(t, b, s, 1000+i, 1)
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait()
		equal(t, copied, fresh(t, b))
		if c.listings < 20 || c.listings > 30 || c.watched < tasks || c.watched > 3*tasks {
			t.Errorf("%d listings with %d keys and %d changes in 24 hours; want one listing an hour and each change twice", c.listings, c.listed, c.watched)
		}
	})
}

// If there are more changes than tasks, the tasks are listed.
func TestFollow_M10_AReconcileCostsNoMoreThanAListing(t *testing.T) {
	followed(t, func(b broker.Broker, c *counted, s keys.Space, copied *Tasks) {
		const rounds = 20
		for range rounds {
			put(t, b, s, 0, 1000)
			put(t, b, s, 0, 1000)
			time.Sleep(2 * time.Minute)
		}
		synctest.Wait()
		equal(t, copied, fresh(t, b))
		if c.watched > 2000*rounds*11/10 {
			t.Errorf("%d changes were watched for %d that were made", c.watched, 2000*rounds)
		}
	})
}

// A change that one watch leaves out is found by the next check; if two leave it out,
// by the next listing.
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
			equal(t, copied, fresh(t, b))
		})
	}
}

func TestNodes_KeepsCommandsInTheOrderTheyWereSent(t *testing.T) {
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

func TestTasks_M43_AHandoverNoteOlderThanTheClaimDoesNotCount(t *testing.T) {
	s, store := space(t), memory.New()
	defer store.Close()
	b := store.Broker()
	session := grant(t, b)
	note, claim := broker.PutSession(s.Handover("a"), []byte(`{"node":"m"}`), session), broker.PutSession(s.Owner("a"), []byte(`{"node":"n"}`), session)
	for i, step := range []struct {
		op   broker.Op
		want string
	}{{broker.Put(s.Task("a"), nil), ""}, {note, "m"}, {claim, ""}, {note, "m"}, {broker.Delete(s.Owner("a")), "m"}, {claim, ""}, {broker.Delete(s.Owner("a")), "m"}} {
		commit(t, b, step.op)
		if got := fresh(t, b).Get("a").For; got != step.want {
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

// A permanent note names the node that held a task last, for copies that have not seen it.
func TestTasks_M17_ANoteThatOutlivesItsSessionSaysWhoHeldTheTaskLast(t *testing.T) {
	s, store := space(t), memory.New()
	defer store.Close()
	b := store.Broker()
	session := grant(t, b)
	note := func(node string) broker.Op { return broker.Put(s.Handover("a"), []byte(`{"node":"`+node+`"}`)) }
	claim, release := broker.PutSession(s.Owner("a"), []byte(`{"node":"n"}`), session), broker.Delete(s.Owner("a"))
	watched, listed := fresh(t, b), fresh(t, b)
	for i, step := range []struct {
		ops        []broker.Op
		fresh, old string // who held it last, for a new copy and for one that was there
	}{
		{[]broker.Op{broker.Put(s.Task("a"), nil)}, "", ""},
		{[]broker.Op{note("m")}, "m", "m"},
		{[]broker.Op{claim, broker.Delete(s.Handover("a"))}, "", "m"},
		{[]broker.Op{release, note("n")}, "n", "n"},
		{[]broker.Op{claim}, "n", "n"}, // and the note stays
		{[]broker.Op{release}, "n", "n"},
		{[]broker.Op{broker.Delete(s.Handover("a"))}, "", "n"},
	} {
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: step.ops}); err != nil {
			t.Fatal(err)
		}
		now := fresh(t, b)
		listed.Reset(listing(t, b))
		catchUp(t, b, s, watched, now.revision)
		for how, got := range map[string]*Task{"new": now.Get("a"), "watched": watched.Get("a"), "listed": listed.Get("a")} {
			want := step.old
			if how == "new" {
				want = step.fresh
			}
			if !got.Owned() && got.Last != want || got.For != "" {
				t.Errorf("step %d, %s: held by %q last and for %q, want %q", i, how, got.Last, got.For, want)
			}
		}
	}
}

func TestNodes_KnowsWhoIsAwayAndIsToBeBack(t *testing.T) {
	s := space(t)
	m := NewNodes(s)
	at := broker.Revision(0)
	event := func(key string, deleted bool) {
		at++
		m.Apply(broker.Batch{Revision: at, Events: []broker.Event{{Deleted: deleted, KV: broker.KV{Key: key, Value: []byte("{}"), Created: at, Modified: at}}}})
	}
	for i, step := range []struct {
		key            string
		deleted        bool
		away, promised string
		changed        bool
	}{
		{s.NodeInfo("n"), false, "", "", false},
		{s.NodeReturn("n"), false, "", "n", true},
		{s.NodeInfo("n"), true, "n", "n", true},
		{s.NodeInfo("m"), false, "n", "n", false},
		{s.NodeCordon("n"), false, "", "n", true},
		{s.NodeCordon("n"), true, "n", "n", true},
		{s.NodeInfo("n"), false, "", "n", true},
		{s.NodeInfo("n"), true, "n", "n", true},
		{s.NodeReturn("n"), true, "", "", true},
	} {
		event(step.key, step.deleted)
		away, promised := "", ""
		for _, n := range m.Away() {
			away += n.Name
		}
		for _, n := range m.Promised() {
			promised += n.Name
		}
		if changed := m.ReturnsChanged(); away != step.away || promised != step.promised || changed != step.changed || m.ReturnsChanged() {
			t.Errorf("step %d: away %q, promised %q, changed %v; want %+v", i, away, promised, changed, step)
		}
	}
	if m.Get("n") != nil {
		t.Error("a node of which nothing is left is kept")
	}
}
