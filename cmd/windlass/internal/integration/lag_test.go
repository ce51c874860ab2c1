package integration_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// Regression: a task that no other node took when it was offered was never offered again.
func TestNode_M17_WhatNobodyTookIsOfferedAgainLater(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("a", "")
		b := w.joinFaulty("b", "")
		w.Advance(time.Second)
		b.Use(`lose-request 1s on commit below "/test/tasks/"`) // it lives, and claims nothing
		w.submit(20, windlass.Spec{})
		w.WaitUntil(time.Minute, "a has taken all", func() bool { return w.runningOn("a") == 20 })
		w.Advance(5 * time.Second)
		b.Use("")
		w.WaitUntil(10*time.Minute, "b is offered some again, and takes its share", func() bool { return w.runningOn("b") >= 8 })
	})
}

// The node sees the others' claims six seconds late, so that all their tasks look unclaimed
// and late to it.
func TestPlacement_ANodeWhoseCopyLagsDoesNotClaimWhatOthersHave(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		lagging := f.node("lagging")
		f.submit("own", 1000, windlass.Spec{Node: "lagging"}) // so that all others go elsewhere
		f.nodes(3)
		lagging.Use(`delay-request 6s on batch below "/test/tasks/"`)
		for i := range 10 {
			f.submit(fmt.Sprint("t", i), 200, windlass.Spec{})
			f.Advance(10 * time.Second)
		}
		lagging.Use("")
		f.Settle(3 * time.Minute)
		if n := f.claimsRefused("lagging"); n > 20 {
			t.Errorf("%d claims were refused", n)
		}
	})
}

// For half a minute its copy shows completed tasks as free. Meanwhile it looks for free tasks
// several times.
func TestPlacement_ANodeWhoseCopyLagsDoesNotClaimWhatItHasEnded(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		n := f.node("n", also("job", done))
		f.Advance(time.Second)
		f.submit("t", 200, windlass.Spec{Type: "job"})
		n.Use(`delay-request 30s on batch below "/test/tasks/"`)
		f.Advance(5 * time.Minute)
		if ran, n := len(f.Ran()), f.claimsRefused("n"); ran != 200 || n > 0 {
			t.Errorf("%d ran, and %d claims were refused", ran, n)
		}
	})
}

// Nodes that see tasks and claims in different portions still assign them to the same nodes.
func TestPlacement_M17_AFewShortLivedTasksAreClaimedSoonByNodesThatSeeThemInOtherPortions(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3, also("job", done))
		f.submit("lasting", 20, windlass.Spec{})
		f.submit("job", 100, windlass.Spec{Type: "job"})
		f.Advance(time.Minute)
		for i, n := range all {
			n.Use(fmt.Sprintf(`delay-request %dms on batch below "/test/tasks/"`, 40*i))
		}
		for round := range 200 {
			if round%3 == 0 {
				f.submit(fmt.Sprint("more", round), 1, windlass.Spec{})
			}
			submitted := map[string]time.Time{}
			for i := range 1 + round%4 {
				for _, id := range f.submit(fmt.Sprintf("j%d-%d", round, i), 1, windlass.Spec{Type: "job"}) {
					submitted[id] = time.Now()
				}
				f.Advance(time.Duration(17*(round%7)) * time.Millisecond)
			}
			f.Advance(5 * time.Second)
			for id, at := range submitted {
				if runs := f.Runs(id); len(runs) == 0 || runs[0].Started.Sub(at) > time.Second {
					t.Errorf("%s, submitted at %v: %v", id, at, runs)
				}
			}
		}
	})
}

// The first task that another node claims shows that it takes none; then all are claimed.
func TestPlacement_WhatANodeDoesNotTakeGoesToOthersAtOnceHoweverMuchItIs(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("refusing", func(c *windlass.Config) { c.Balancer = refusing{} })
		for _, n := range f.nodes(3) {
			n.Use(`delay-request 50ms on commit`)
		}
		f.submit("t", 2000, windlass.Spec{})
		f.allRun(5*time.Second, 2000)
	})
}

// Another node claimed and released it while the watch was broken. A new copy shows neither.
func TestPlacement_WhatWasRefusedIsClaimedWhenANewCopyShowsItFree(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		n := f.node("n")
		f.Advance(time.Second)
		n.Use(`delay-request 3s on batch below "/test/tasks/"`)
		f.submit("t", 1, windlass.Spec{})
		f.Advance(time.Second)
		f.putForAnHour("/test/tasks/t-0000/owner", `{"node":"other"}`)
		f.Advance(3 * time.Second) // in which its claim is refused
		if f.claimsRefused("n") != 1 {
			t.Errorf("%d of its claims were refused", f.claimsRefused("n"))
		}
		n.Partition()
		f.delete("/test/tasks/t-0000/owner")
		f.Advance(time.Second)
		n.Use("")
		n.Heal()
		f.allRun(3*time.Second, 1)
	})
}

func TestPlacement_ANodeTellsByHowMuchItsCopyLags(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		lagging := f.node("lagging")
		slow := f.nodes(1)[0]
		behind := func() map[string]string {
			told := map[string]string{}
			for _, n := range f.cluster.nodes() {
				if n.Behind != "" {
					told[n.Name] = n.Behind
				}
			}
			return told
		}
		slow.Use(`delay-reply 3s on commit below "/test/tasks/"`) // which its copy is not
		f.submit("t", 20, windlass.Spec{})
		f.Advance(10 * time.Second)
		slow.Use("")
		if told := behind(); len(told) > 0 {
			t.Errorf("behind are %v", told)
		}
		lagging.Use(`delay-request 6s on batch below "/test/tasks/"`)
		f.submit("own", 1, windlass.Spec{Node: "lagging"})
		f.Advance(11 * time.Second) // it sees the task after six, and its claim after twelve
		if told := behind(); !maps.Equal(told, map[string]string{"lagging": "4s"}) {
			t.Errorf("behind are %v", told)
		}
		f.submit("pinned", 1, windlass.Spec{Node: "lagging"})
		for _, n := range f.explain("pinned-0000").Nodes {
			if late := strings.Contains(n.Why, "4s late or more"); late != (n.Node == "lagging") {
				t.Errorf("of %s it says: %s", n.Node, n.Why)
			}
		}
		lagging.Use("")
		f.Advance(time.Minute)
		if told := behind(); len(told) > 0 {
			t.Errorf("behind are still %v", told)
		}
	})
}
