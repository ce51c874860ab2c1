package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/statemachine"
)

// inWorlds runs a test on the store in memory, and on a real etcd.
func inWorlds(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { inMemory(t, test) })
	t.Run("etcd", func(t *testing.T) { inEtcd(t, test) })
}

func inMemory(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close() // stops its timers; it fails never
		test(newWorld(t, func() broker.Broker { return store.Broker() }))
	})
}

func inEtcd(t *testing.T, test func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(newWorld(t, func() broker.Broker { return server.Broker() }))
	})
}

func TestDoctor_OfAHealthyClusterFindsAndChangesNothing(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.healthy()
		w.expect("", doctor.OK)
		if len(w.looks) > 0 {
			w.Errorf("it looked twice: %v", w.looks)
		}
		w.writesNothing(func() {
			if done, left := w.fix(); len(done)+len(left) > 0 {
				w.Errorf("%q, %q", done, left)
			}
		})
	})
}

func TestNamespace_EmptyLacksOnlyNodes(t *testing.T) {
	inWorlds(t, func(w *world) { w.expect(doctor.CheckNodes, doctor.Warning, "no node is registered") })
}

// Elections need no node: who uses nothing else is not warned of that for ever.
func TestNamespace_OfElectionsAloneLacksNoNode(t *testing.T) {
	inWorlds(t, func(w *world) {
		s, err := w.connect().Grant(w.Context(), w.space.Sessions(), time.Minute)
		if err != nil {
			w.Fatal(err)
		}
		w.putOn(s.ID, w.space.Candidate("reports", "a"), "a")
		w.expect("", doctor.OK)
	})
}

// TestNamespace_OfWorkingNodesHasNoFindings examines again and again while real nodes
// claim, run, sleep, end and restart.
func TestNamespace_OfWorkingNodesHasNoFindings(t *testing.T) {
	inEtcd(t, func(w *world) {
		client, err := windlass.NewClient(w.connect(), "w")
		if err != nil {
			w.Fatal(err)
		}
		defer w.startNodes("a", "b", "d")()
		time.Sleep(time.Second)
		for round := range 10 {
			var batch []windlass.Submission
			for i := range 50 {
				id := fmt.Sprintf("task-%d-%d", round, i)
				batch = append(batch, windlass.Submission{ID: id, Props: []byte(`{}`)},
					windlass.Submission{ID: id + "|child"}, windlass.Submission{ID: id + "-after", Spec: windlass.Spec{Needs: []string{id}}})
			}
			for _, err := range client.SubmitAll(w.Context(), batch) {
				if err != nil {
					w.Fatal(err)
				}
			}
			for range 5 {
				w.expect("", doctor.OK)
				time.Sleep(time.Duration(round) * 7 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
		}
		if len(w.looks) > 0 {
			w.Errorf("it looked twice: %v", w.looks)
		}
	})
}

// startNodes runs nodes whose handlers take a while and fail sometimes, each task once at
// most: one that keeps failing is a finding. It returns what stops them.
func (w *world) startNodes(names ...string) (stop func()) {
	w.Helper()
	var failed sync.Map
	work := func(ctx context.Context, claim *windlass.Claim) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.IntN(3000)) * time.Millisecond):
		}
		if rand.IntN(10) == 0 {
			if _, again := failed.LoadOrStore(claim.ID(), true); !again {
				return errors.New("try again")
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, name := range names {
		node, err := windlass.NewNode(windlass.Config{
			Broker: w.connect(), Namespace: "w", Name: name, Clock: clock.Process,
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(work)},
		})
		if err != nil {
			w.Fatal(err)
		}
		running.Go(func() {
			if err := node.Run(ctx); err != nil {
				w.Error(err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func TestNamespace_FindsEachDefect(t *testing.T) {
	far := 200 * time.Second
	for _, c := range []struct {
		name   string
		defect func(w *world, n broker.SessionID)
		check  string
		status doctor.Status
		words  []string
	}{
		{"an unreadable layout", func(w *world, _ broker.SessionID) { w.put(w.space.Layout(), "garbage") },
			doctor.CheckLayout, doctor.Problem, []string{"/w/layout"}},
		{"no layout", func(w *world, _ broker.SessionID) { w.commit(broker.Delete(w.space.Layout())) },
			doctor.CheckLayout, doctor.OK, []string{"no version is written down"}},

		{"a registration without a session", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeInfo("ghost"), `{"name":"ghost","session_ttl":"15s","version":"v1"}`)
		},
			doctor.CheckNodes, doctor.Problem, []string{"1 registration(s) without a session", "/w/nodes/ghost/info"}},
		{"a registration of another name", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.Name = "x" }) },
			doctor.CheckNodes, doctor.Warning, []string{`"x"`}},
		{"nodes of two versions", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.Version = "v2" }) },
			doctor.CheckNodes, doctor.Warning, []string{"2 different versions", "v1", "v2"}},
		{"nodes of two session TTLs", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.SessionTTL = "5s" }) },
			doctor.CheckNodes, doctor.Warning, []string{"2 different session TTLs", "5s"}},
		{"nodes that are all frozen", func(w *world, n broker.SessionID) { w.putOn(n, w.space.NodeInfo("n"), `{"types":["t"],"frozen":true}`) },
			doctor.CheckNodes, doctor.Warning, []string{"all of them", "n"}},
		{"a node whose copy is behind", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.Behind = "4s" }) },
			doctor.CheckNodes, doctor.Warning, []string{"1 node(s) that saw late what others do", "m was 4s behind, or more"}},
		{"a node whose session is renewed slowly", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.SlowRenewal = "1.9s" }) },
			doctor.CheckNodes, doctor.Warning, []string{"1 node(s) whose session was renewed slowly", "m: 1.9s, of its TTL of 15s"}},
		{"a node whose clock is ahead when it starts", func(w *world, _ broker.SessionID) {
			w.node("m", func(i *windlass.NodeInfo) { i.StartedAt = time.Now().Add(time.Hour) })
			w.node("o", func(i *windlass.NodeInfo) { i.StartedAt = time.Now().Add(5 * time.Second) })
		}, doctor.CheckNodes, doctor.Warning, []string{"1 node(s) that started or claimed tasks in the future", "m: 1h0m0s ahead"}},
		{"a node whose clock is ahead when it claims", func(w *world, n broker.SessionID) {
			w.putOn(n, w.space.Claim("runs"), `{"incarnation":"of n","claimed_at":"2000-01-01T00:05:00Z"}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"1 node(s) that started or claimed tasks in the future", "n: ", " ahead, or more"}},
		{"a cordon that may be forgotten", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeCordon("m"), `{"at":"1999-11-01T00:00:00Z"}`)
			w.put(w.space.NodeCordon("n"), `{"at":"1999-11-01T00:00:00Z"}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"1 cordon(s) of nodes that are not there, for more than a month", "m"}},
		{"a cordon of late", func(w *world, _ broker.SessionID) { w.put(w.space.NodeCordon("m"), `{"at":"1999-12-31T00:00:00Z"}`) },
			doctor.CheckNodes, doctor.OK, []string{"1 registered, 1 cordoned and not there"}},
		{"a node that is to be back", func(w *world, _ broker.SessionID) { w.isAway("m", `{"name":"m"}`, time.Hour) },
			doctor.CheckNodes, doctor.OK, []string{"1 registered, 1 away and to be back"}},
		{"a task that is kept for a node that is to be back", func(w *world, _ broker.SessionID) { w.isAway("m", `{"name":"m"}`, time.Hour) },
			doctor.CheckTasks, doctor.OK, []string{", 1 kept for nodes that are to be back; none is stuck"}},
		{"a task that was kept", func(w *world, _ broker.SessionID) { w.isAway("m", `{"name":"m"}`, -time.Second) },
			doctor.CheckTasks, doctor.Warning, []string{"kept"}},
		{"a task that is kept for a node that was cordoned since", func(w *world, _ broker.SessionID) {
			w.isAway("m", `{"name":"m"}`, time.Hour)
			w.put(w.space.NodeCordon("m"), `{"at":"1999-12-31T00:00:00Z"}`)
		}, doctor.CheckTasks, doctor.Warning, []string{"kept"}},
		{"a promise that cannot be read", func(w *world, _ broker.SessionID) { w.put(w.space.NodeReturn("m"), "{") },
			doctor.CheckValues, doctor.Problem, []string{"/w/nodes/m/return"}},
		{"types that are paused", func(w *world, _ broker.SessionID) {
			w.put(w.space.TypePause("t"), `{"at":"1999-12-31T23:00:00Z"}`)
			w.put(w.space.TypePause("nobody-runs"), `{"at":"1999-12-31T23:00:00Z"}`)
			w.put(w.space.Task("x"), `{"type":"nobody-runs"}`)
		}, doctor.CheckTasks, doctor.Warning, []string{"2 type(s) that are paused: none of their tasks runs", `"nobody-runs"`, `"t"`}},
		{"a task that killed nodes", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeDeath("m", "i"), `{"at":"1999-12-31T23:59:00Z","culprit":"p","count":3}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"1 task(s) that seem to have killed the nodes", "p, with which 3 nodes died"}},
		{"a node that keeps dying", func(w *world, n broker.SessionID) {
			w.put(w.space.NodeDeath("n", "i"), `{"at":"1999-12-31T23:58:00Z"}`)
			w.put(w.space.NodeDeath("n", "j"), `{"at":"1999-12-31T23:59:00Z"}`)
			w.putOn(n, w.space.NodeInfo("n"), `{"types":["t"],"session_ttl":"15s","version":"v1","probation":"2000-01-01T00:05:00Z"}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"1 node(s) that died repeatedly", "n died 2 times, and is given nothing until 2000-01-01T00:05:00Z"}},
		{"a node that a task killed, and another that keeps dying", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeDeath("n", "i"), `{"at":"1999-12-31T23:58:00Z","lost":[{"task":"p","token":1}]}`)
			w.put(w.space.NodeDeath("n", "j"), `{"at":"1999-12-31T23:59:00Z","lost":[{"task":"p","token":2}],"culprit":"p","count":2}`)
			w.put(w.space.NodeDeath("m", "i"), `{"at":"1999-12-31T23:58:00Z"}`)
			w.put(w.space.NodeDeath("m", "j"), `{"at":"1999-12-31T23:59:00Z"}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"p, with which 2 nodes died", "1 node(s) that died repeatedly", "m died 2 times"}},
		{"a node whose supervisor keeps dying", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeDeath("n", "i"), `{"at":"1999-12-31T23:58:00Z","process":"supervisor","restarted":true}`)
			w.put(w.space.NodeDeath("n", "j"), `{"at":"1999-12-31T23:59:00Z","process":"supervisor","restarted":true}`)
		}, doctor.CheckNodes, doctor.Warning, []string{"1 node(s) that died repeatedly", "n, or its supervisor, died 2 times"}},
		{"a task that killed nodes and was submitted again", func(w *world, n broker.SessionID) {
			w.put(w.space.NodeDeath("m", "i"), `{"at":"1999-12-31T23:59:00Z","lost":[{"task":"x","token":1}],"culprit":"x","count":3}`)
			w.task("x")
			w.claim("x", "n", n)
		}, doctor.CheckNodes, doctor.OK, []string{"1 registered"}},
		{"deaths of long ago, and a single one", func(w *world, _ broker.SessionID) {
			w.put(w.space.NodeDeath("n", "i"), `{"at":"1999-12-31T20:00:00Z","culprit":"p","count":3}`)
			w.put(w.space.NodeDeath("n", "j"), `{"at":"1999-12-31T23:59:00Z"}`)
		}, doctor.CheckNodes, doctor.OK, []string{"1 registered"}},
		{"a record of a death that is none", func(w *world, _ broker.SessionID) { w.put(w.space.NodeDeath("n", "i"), `{}`) },
			doctor.CheckValues, doctor.Problem, []string{"/w/nodes/n/deaths/i"}},

		{"a claim without a session", func(w *world, _ broker.SessionID) { w.task("x"); w.claim("x", "n", 0) },
			doctor.CheckClaims, doctor.Problem, []string{"1 claim(s) without a session", "/w/tasks/x/owner"}},
		{"a claim of a node that is gone, kept alive", func(w *world, _ broker.SessionID) { w.task("x"); w.claim("x", "gone", w.session(far)) },
			doctor.CheckClaims, doctor.Problem, []string{"not registered", "x, held by gone"}},
		{"a claim of an earlier session, kept alive", func(w *world, _ broker.SessionID) { w.task("x"); w.claim("x", "n", w.session(far)) },
			doctor.CheckClaims, doctor.Problem, []string{"x, held by n"}},
		{"a claim in another node's name", func(w *world, _ broker.SessionID) { w.task("x"); w.claim("x", "n", w.node("m")) },
			doctor.CheckClaims, doctor.Problem, []string{"x names n and lives with m"}},
		{"a claim of a task that does not exist", func(w *world, n broker.SessionID) { w.claim("x", "n", n) },
			doctor.CheckClaims, doctor.Warning, []string{"/w/tasks/x/owner"}},
		{"a record of another incarnation", func(w *world, n broker.SessionID) { w.putOn(n, w.space.Claim("runs"), `{"incarnation":"another"}`) },
			doctor.CheckClaims, doctor.Warning, []string{"/w/claims/runs"}},

		{"a task that has ended and is there", func(w *world, _ broker.SessionID) { w.task("done") },
			doctor.CheckDuplicates, doctor.Problem, []string{"done is completed"}},
		{"two registrations with one session", func(w *world, n broker.SessionID) {
			w.putOn(n, w.space.NodeInfo("m"), `{"types":["t"],"session_ttl":"15s","version":"v1"}`)
		},
			doctor.CheckDuplicates, doctor.Problem, []string{"m and n"}},
		{"two registrations of one incarnation", func(w *world, _ broker.SessionID) { w.node("m", func(i *windlass.NodeInfo) { i.Incarnation = "of n" }) },
			doctor.CheckDuplicates, doctor.Problem, []string{"m and n"}},

		{"a type that nobody handles", func(w *world, _ broker.SessionID) { w.task("x", func(s *windlass.Spec) { s.Type = "rare" }) },
			doctor.CheckTasks, doctor.Problem, []string{`1 task(s) of type "rare"`, "x"}},
		{"a type whose nodes are frozen", func(w *world, _ broker.SessionID) {
			w.node("m", func(i *windlass.NodeInfo) { i.Types, i.Frozen = []string{"rare"}, true })
			w.task("x", func(s *windlass.Spec) { s.Type = "rare" })
		}, doctor.CheckTasks, doctor.Warning, []string{`"rare"`, "frozen"}},
		{"a task that nobody claims", func(w *world, _ broker.SessionID) { w.task("x") },
			doctor.CheckTasks, doctor.Warning, []string{"1 task(s) that no node claims", "x"}},
		{"a task that nobody has claimed yet", func(w *world, _ broker.SessionID) {
			w.task("x", func(s *windlass.Spec) { s.SubmittedAt = time.Now().Add(-50 * time.Second) })
		}, doctor.CheckTasks, doctor.OK, []string{"none is stuck, but 1 may not have waited for long enough to tell"}},
		{"tasks behind one that cannot run", func(w *world, _ broker.SessionID) {
			w.task("x", func(s *windlass.Spec) { s.Type = "rare" })
			w.task("y", needs("x"))
			w.task("z", needs("runs", "y"))
		}, doctor.CheckTasks, doctor.Problem, []string{"y waits for x, which is of a type that no node handles", "z waits for y, which waits for x"}},
		{"tasks behind one that has failed", func(w *world, _ broker.SessionID) {
			w.put(w.space.Failed("x"), `{"state":"failed"}`)
			w.task("y", needs("x"))
		}, doctor.CheckTasks, doctor.Problem, []string{"y waits for x, which failed or was killed"}},
		{"a task that needs all below a job, of which one has failed", func(w *world, _ broker.SessionID) {
			w.put(w.space.Failed("a_t|b_t|c_t"), `{"state":"failed"}`)
			w.task("y", needs("a_t|*"))
		}, doctor.CheckTasks, doctor.Problem, []string{"y waits for a_t|b_t|c_t, which failed or was killed"}},
		{"a task that needs all below a job, of which one waits for it", func(w *world, _ broker.SessionID) {
			w.task("y", needs("a_t|*"))
			w.task("a_t|b_t", needs("y"))
		}, doctor.CheckTasks, doctor.Problem, []string{"1 cycle(s) of tasks that wait for each other", "a_t|b_t → y → a_t|b_t"}},
		{"tasks that wait for each other", func(w *world, _ broker.SessionID) {
			w.task("x", needs("y"))
			w.task("y", needs("x"))
			w.task("z", needs("y"))
		}, doctor.CheckTasks, doctor.Problem, []string{"1 cycle(s) of tasks that wait for each other", "x → y → x", "1 task(s) that wait for what cannot run", "z waits for y"}},

		{"a task that keeps failing", func(w *world, n broker.SessionID) {
			w.put(w.space.State("runs"), `{"state":"runnable","failures":5,"errors":[{"timestamp":"1999-12-31T23:50:00Z","error":"no route\nto host"}]}`)
			w.put(w.space.State("sleeps"), `{"state":"sleeping","until":"2100-01-01T00:00:00Z","failures":4,"errors":[{"timestamp":"1999-12-31T23:50:00Z","error":"e"}]}`)
			w.put(w.space.State("older"), `{"state":"runnable","failures":9,"errors":[{"timestamp":"1999-12-31T20:00:00Z","error":"e"}]}`)
			w.put(w.space.State("done"), `{"state":"failed","failures":9,"errors":[{"timestamp":"1999-12-31T23:50:00Z","error":"e"}]}`)
		}, doctor.CheckRuns, doctor.Warning, []string{"1 task(s) that keep failing", "runs: 5 error(s), the last: no route"}},
		{"a task whose command keeps ending", func(w *world, n broker.SessionID) {
			restarts := func(id string, inARow int, ago time.Duration) {
				w.putOn(n, w.space.Claim(id), w.json(coordinator.Record{Incarnation: "of n", Restarts: &statemachine.Restarts{
					Count: 9, InARow: inARow, LastEnd: "exited: exit code 1\nmore", LastAt: time.Now().Add(-ago),
				}}))
			}
			restarts("runs", 5, time.Minute)
			restarts("sleeps", 4, time.Minute)
		}, doctor.CheckRuns, doctor.Warning, []string{"1 task(s) whose command keeps ending", "runs: 5 restart(s) in a row, the last after: exited: exit code 1"}},
		{"a task that loses its node again and again", func(w *world, _ broker.SessionID) {
			w.put(w.space.History("runs"), w.history(statemachine.EventLost, time.Minute, 5))
			w.put(w.space.History("sleeps"), w.history(statemachine.EventLost, time.Minute, 4))
			w.put(w.space.History("older"), w.history(statemachine.EventLost, 2*time.Hour, 9))
			w.put(w.space.History("done"), w.history(statemachine.EventLost, time.Minute, 9))
		}, doctor.CheckRuns, doctor.Warning, []string{"1 task(s) that lost their nodes repeatedly", "runs: 5 times, on 2 node(s)"}},
		{"a task that moves again and again, as at deploys and drains", func(w *world, _ broker.SessionID) {
			w.put(w.space.History("runs"), w.history(statemachine.EventReleased, time.Minute, 9))
		}, doctor.CheckRuns, doctor.OK, []string{"none keeps failing"}},
		{"tasks that failed for good, which a deploy may have caused", func(w *world, _ broker.SessionID) {
			for id, at := range map[string]string{"x": "1999-12-31T23:50:00Z", "y": "1999-12-31T23:20:00Z", "before": "1999-12-31T20:00:00Z"} {
				w.put(w.space.State(id), `{"state":"failed","failures":1,"errors":[{"timestamp":"`+at+`","error":"e"}]}`)
			}
			w.put(w.space.State("well"), `{"state":"completed","errors":[{"timestamp":"1999-12-31T23:50:00Z","error":"e"}]}`)
		}, doctor.CheckRuns, doctor.OK, []string{`none keeps failing or losing its node; 2 failed for good within the last hour, which "windlass task failures" groups`}},
		{"a history that cannot be read", func(w *world, _ broker.SessionID) { w.put(w.space.History("runs"), "{") },
			doctor.CheckValues, doctor.Warning, []string{"/w/history/runs: "}},

		{"a spec that cannot be read", func(w *world, _ broker.SessionID) { w.put(w.space.Task("x"), "{") },
			doctor.CheckValues, doctor.Problem, []string{"/w/tasks/x: "}},
		{"properties that cannot be read", func(w *world, n broker.SessionID) { w.put(w.space.Props("x"), "{"); w.claim("x", "n", n) },
			doctor.CheckValues, doctor.Problem, []string{"/w/tasks/x/props: not JSON"}},
		{"a state that cannot be read", func(w *world, n broker.SessionID) { w.put(w.space.State("runs"), "{") },
			doctor.CheckValues, doctor.Problem, []string{"/w/state/runs: "}},
		{"a state from the future", func(w *world, n broker.SessionID) { w.put(w.space.State("runs"), `{"state":"dreaming"}`) },
			doctor.CheckValues, doctor.Problem, []string{"1 state(s) that this version does not know", "dreaming"}},
		{"an owner that cannot be read", func(w *world, n broker.SessionID) { w.putOn(n, w.space.Owner("runs"), "{}") },
			doctor.CheckValues, doctor.Problem, []string{"/w/tasks/runs/owner: it names no node"}},
		{"a registration that cannot be read", func(w *world, _ broker.SessionID) { w.putOn(w.session(far), w.space.NodeInfo("m"), "{") },
			doctor.CheckValues, doctor.Problem, []string{"/w/nodes/m/info"}},
		{"a command that cannot be read", func(w *world, n broker.SessionID) { w.putOn(n, w.space.NodeCommand("n", "2"), "{") },
			doctor.CheckValues, doctor.Warning, []string{"/w/nodes/n/commands/2"}},
		{"a record that cannot be read", func(w *world, n broker.SessionID) { w.putOn(n, w.space.Claim("runs"), "{") },
			doctor.CheckValues, doctor.Warning, []string{"/w/claims/runs"}},

		{"the record of a claim that nobody holds", func(w *world, _ broker.SessionID) { w.put(w.space.Claim("x"), "{}") },
			doctor.CheckLeftovers, doctor.Warning, []string{"/w/claims/x"}},
		{"a command to a task that is gone", func(w *world, _ broker.SessionID) { w.put(w.space.TaskCommand("x"), "kill") },
			doctor.CheckLeftovers, doctor.Warning, []string{"/w/commands/x"}},
		{"a command to a node that is gone", func(w *world, _ broker.SessionID) { w.put(w.space.NodeCommand("gone", "1"), "freeze") },
			doctor.CheckLeftovers, doctor.Warning, []string{"/w/nodes/gone/commands/1"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			inWorlds(t, func(w *world) {
				c.defect(w, w.healthy())
				w.expect(c.check, c.status, c.words...)
			})
		})
	}
}

func TestNamespace_ClaimsThatExpireAreNoDefect(t *testing.T) {
	inWorlds(t, func(w *world) {
		n := w.healthy()
		w.task("x")
		w.claim("x", "gone", w.session(15*time.Second))
		began := time.Now()
		go func() { // the cluster claims the task meanwhile
			time.Sleep(17 * time.Second)
			w.claim("x", "n", n)
		}()
		w.expect(doctor.CheckClaims, doctor.OK)
		if waited := time.Since(began); len(w.looks) != 1 || waited < 15*time.Second || waited > 20*time.Second {
			w.Errorf("it looked again after %v %v", waited, w.looks)
		}
	})
}

func TestNamespace_TasksThatAreClaimedSoonAreNoDefect(t *testing.T) {
	inWorlds(t, func(w *world) {
		n := w.healthy()
		w.task("released")
		w.task("new", func(s *windlass.Spec) { s.SubmittedAt = time.Now() })
		go func() {
			time.Sleep(time.Second)
			w.claim("released", "n", n)
		}()
		w.expect("", doctor.OK)
		if len(w.looks) != 1 {
			w.Errorf("%v", w.looks)
		}
	})
}

func TestNamespace_WithoutNodesTasksWait(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.task("x")
		if c := w.examine()[doctor.CheckTasks]; c.Status != doctor.Problem || !strings.Contains(c.Found, "no node is registered") {
			w.Errorf("%+v", c)
		}
	})
}

func TestNamespace_OfANewerLayoutIsNotChecked(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.healthy()
		w.claim("x", "n", 0)
		w.put(w.space.Layout(), `{"version":9}`)
		for name, c := range w.examine() {
			want := doctor.Unknown
			if name == doctor.CheckLayout {
				want = doctor.Problem
			}
			if c.Status != want {
				w.Errorf("%+v", c)
			}
		}
		if fixed, err := w.doctor.Fix(w.Context()); err != nil || len(fixed) > 0 {
			w.Errorf("%+v, %v", fixed, err)
		}
	})
}

func TestNamespace_WhatIsKeptNeedsNoSecondLook(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.healthy()
		w.isAway("m", `{"name":"m"}`, time.Hour)
		if w.examine(); len(w.looks) > 0 {
			w.Errorf("it looked again after %v", w.looks)
		}
	})
}

func TestNamespace_EachFindingHasItsOwnRemedy(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.healthy()
		w.node("m", func(i *windlass.NodeInfo) { i.SessionTTL, i.Behind = "5s", "4s" })
		checks, err := w.doctor.Namespace(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		remedies := map[string]bool{}
		for _, c := range checks {
			if c.Name == doctor.CheckNodes {
				remedies[c.Do] = true
				if strings.Contains(c.Found, ";") && !strings.Contains(c.Found, "while they do") || len(c.Details) != 1 && len(c.Details) != 2 {
					w.Errorf("%+v", c)
				}
			}
		}
		if len(remedies) != 2 {
			w.Errorf("the remedies are %v", remedies)
		}
	})
}

func TestNamespace_CountsAllAndNamesAFew(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.healthy()
		for i := range 300 {
			w.put(w.space.Claim(fmt.Sprintf("x-%03d", i)), "{}")
		}
		c := w.examine()[doctor.CheckLeftovers]
		if !strings.HasPrefix(c.Found, "300 ") || len(c.Details) != doctor.DetailsMax+1 || c.Details[doctor.DetailsMax] != "and 295 more" {
			w.Errorf("%+v", c)
		}
	})
}

func TestDoctor_ReturnsErrClosed(t *testing.T) {
	inWorlds(t, func(w *world) {
		if err := w.broker.Close(); err != nil {
			w.Fatal(err)
		}
		_, errNamespace := w.doctor.Namespace(w.Context())
		_, errFix := w.doctor.Fix(w.Context())
		_, errTrip := w.doctor.RoundTrip(w.Context())
		_, errRights := w.doctor.Permissions(w.Context())
		for _, err := range []error{errNamespace, errFix, errTrip, errRights} {
			if !errors.Is(err, broker.ErrClosed) {
				w.Errorf("%v", err)
			}
		}
	})
}
