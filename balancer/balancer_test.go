package balancer

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func view(self int, unowned int, others ...int) *windlass.View {
	v := &windlass.View{Self: windlass.NodeLoad{Name: "self", Tasks: self}, Unowned: unowned}
	for i, n := range others {
		v.Nodes = append(v.Nodes, windlass.NodeLoad{Name: string(rune('a' + i)), Tasks: n})
	}
	for i := range self {
		v.Running = append(v.Running, windlass.RunningTask{ID: string(rune('0' + i%10))})
	}
	return v
}

func TestFair_M41_ReleasesAboveItsThresholdDownToTheAverage(t *testing.T) {
	for _, c := range []struct {
		name string
		v    *windlass.View
		want int
	}{
		{"ten beside two", view(10, 0, 2), 4},
		{"two beside ten", view(2, 0, 10), 0},
		{"six beside none", view(6, 0, 0), 3},
		{"within a fifth", view(11, 0, 9), 0},
		{"a new node beside five full ones", view(60, 0, 60, 60, 60, 60, 0), 10},
		{"the only task", view(1, 0, 0, 0), 0},
		{"alone", view(5, 0), 0},
	} {
		if got := len((&Fair{}).Balance(c.v)); got != c.want {
			t.Errorf("%s: releases %d, want %d", c.name, got, c.want)
		}
	}
}

func TestFair_M43_KeepsTasksThatCameBackForAPause(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(token int64) *windlass.View {
		now = now.Add(10 * time.Second)
		v := view(4, 0, 0)
		v.Now, v.Trigger = now, events.TriggerDrift
		for i := range v.Running {
			v.Running[i].Token = token
		}
		return v
	}
	f := &Fair{}
	want := func(what string, v *windlass.View, n int) {
		t.Helper()
		if got := f.Balance(v); len(got) != n {
			t.Errorf("%s: releases %q, want %d", what, got, n)
		}
	}
	want("at first", at(1), 2)
	want("the node did not release them", at(1), 2)
	want("both came back, two were never released", at(2), 2)
	want("all came back", at(3), 0)
	now = now.Add(movePauseMin)
	want("after the pause", at(4), 2)
	v := at(5)
	v.Trigger = events.TriggerMembership
	want("a node has joined", v, 2)
}

func TestFair_M42_IgnoresNodesThatTakeNothing(t *testing.T) {
	v := view(10, 0, 0)
	v.Nodes[0].Draining = true
	if got := (&Fair{}).Balance(v); len(got) != 0 {
		t.Errorf("releases %q for a node that is leaving", got)
	}
}

func TestAcceptAll_ClaimsEverythingAndReleasesNothing(t *testing.T) {
	v := view(100, 5, 0)
	if ok, _ := (AcceptAll{}).CanClaim(v, windlass.Candidate{}); !ok || len(AcceptAll{}.Balance(v)) != 0 {
		t.Error("it refuses a claim or releases a task")
	}
}
