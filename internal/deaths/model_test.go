package deaths

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// killedAtRandom has nodes die within an hour for reasons that no task has.
func (f *fleet) killedAtRandom(kills int) {
	for range kills {
		f.kills = append(f.kills, start.Add(time.Duration(f.random.Float64()*float64(50*time.Minute))))
	}
	slices.SortFunc(f.kills, time.Time.Compare)
}

// killedInTurn has all nodes die one after the other.
func (f *fleet) killedInTurn(every time.Duration) {
	f.rolling = true
	for i := range f.nodes {
		f.kills = append(f.kills, start.Add(5*time.Minute).Add(time.Duration(i)*every))
	}
}

// poisoned has a task kill its node each time after a while, another one with each call.
func (f *fleet) poisoned(least, most time.Duration) {
	i := f.random.IntN(len(f.tasks))
	for f.tasks[i].kills != nil {
		i = (i + 1) % len(f.tasks)
	}
	f.tasks[i].kills = func() time.Duration {
		return least + time.Duration(f.random.Float64()*float64(most-least))
	}
}

// armed reports whether a task still kills nodes.
func (f *fleet) armed() bool {
	return slices.ContainsFunc(f.tasks, func(t *modelTask) bool { return t.kills != nil && !t.aside })
}

// hour runs the fleet for an hour, and returns how many innocent tasks were set aside, whether
// those that kill nodes were, and how many the worst of them killed.
func (f *fleet) hour() (innocent int, found bool, killed int) {
	f.ttl, f.restart = 5*time.Second, time.Duration(1+f.random.IntN(3000))*time.Millisecond
	for end := start.Add(10 * time.Minute); f.now.Before(start.Add(55 * time.Minute)); end = f.now.Add(time.Minute) {
		if f.run(end); len(f.kills) == 0 && !f.armed() {
			break
		}
	}
	for _, t := range f.tasks {
		switch {
		case t.kills != nil:
			killed = max(killed, t.killed)
		case t.aside:
			innocent++
		}
	}
	return innocent, !f.armed(), killed
}

// Fleets of all sizes have nodes killed by somebody, by a task, and by both.
func TestJudge_O02_FindsWhatKillsNodesAndNothingElse(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 10
	}
	sizes := [][2]int{{3, 10}, {3, 30}, {5, 50}, {10, 100}}
	quick := func(f *fleet) { f.poisoned(0, 100*time.Millisecond) }
	for _, c := range []struct {
		name string
		set  func(f *fleet)
		// poisoned is true if a task kills nodes, most then how many, and half in half of the
		// fleets.
		poisoned   bool
		most, half int
	}{
		{name: "three are killed", set: func(f *fleet) { f.killedAtRandom(3) }},
		{name: "eight are killed", set: func(f *fleet) { f.killedAtRandom(8) }},
		{name: "all are killed within seconds", set: func(f *fleet) { f.killedInTurn(5 * time.Second) }},
		{name: "all are killed in turn", set: func(f *fleet) { f.killedInTurn(12 * time.Second) }},
		{name: "all are killed slowly in turn", set: func(f *fleet) { f.killedInTurn(30 * time.Second) }},
		{name: "poison", set: quick, poisoned: true, most: 4, half: 3},
		{name: "slower poison", set: func(f *fleet) { f.poisoned(time.Second, 8*time.Second) }, poisoned: true, most: 4, half: 3},
		{name: "slow poison", set: func(f *fleet) { f.poisoned(20*time.Second, 20*time.Second) }, poisoned: true, most: 18, half: 8},
		{name: "two slow poisons", set: func(f *fleet) {
			f.poisoned(12*time.Second, 25*time.Second)
			f.poisoned(12*time.Second, 25*time.Second)
		}, poisoned: true, most: 40, half: 14},
		{name: "poison while three are killed", set: func(f *fleet) { quick(f); f.killedAtRandom(3) }, poisoned: true, most: 6, half: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var killed []int
			innocents := 0
			for _, size := range sizes {
				for seed := range seeds {
					f := newFleet(rand.New(rand.NewPCG(seed, 9)), size[0], size[1])
					c.set(f)
					innocent, found, n := f.hour()
					if innocent > 0 {
						innocents++
					}
					if killed = append(killed, n); c.poisoned && !found {
						t.Errorf("%d nodes, %d tasks, seed %d: it has killed %d nodes and is not found", size[0], size[1], seed, n)
					}
				}
			}
			slices.Sort(killed)
			if half, most := killed[len(killed)/2], killed[len(killed)-1]; half > c.half || most > c.most || innocents > 0 {
				t.Errorf("it has killed %d nodes in half of the fleets and %d at most; an innocent task was set aside in %d of %d", half, most, innocents, len(killed))
			}
		})
	}
}
