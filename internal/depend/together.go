package depend

import "slices"

// Together orders tasks that are submitted together. It hands out each task once those of
// the call that it waits for are stored, and refuses it if one of them was refused. A task
// that waits for itself is never handed out.
//
// A submission waits, is ready, was handed out, or is settled, that is stored or refused. The
// algorithm is Kahn's topological sort (doi.org/10.1145/368996.369025) with vertices that can
// fail.
type Together struct {
	ids []string
	// waits counts, for each submission, the IDs and the earlier submission of its own ID
	// that are not settled. Invariant: what is in ready has none.
	waits []int
	ready []int
	// settled is set for what was stored or refused.
	settled []bool
	groups  map[string]*group
	// next is the following submission of the same ID, zero for none.
	next []int
}

// group has what is submitted under one ID. Usually that is one submission.
type group struct {
	open   int
	stored bool
	// waiting are the submissions that wait for the ID.
	waiting []int
}

// Refusal is a submission that is refused because the task that it needs was.
type Refusal struct {
	Index int
	Need  string
}

// NewTogether returns the order of submissions with these IDs. blockers returns what a
// submission waits for; IDs that are not submitted with it do not count.
func NewTogether(ids []string, blockers func(index int) []string) *Together {
	t := &Together{
		ids: ids, waits: make([]int, len(ids)), settled: make([]bool, len(ids)), next: make([]int, len(ids)),
		groups: make(map[string]*group, len(ids)),
	}
	last := make(map[string]int, len(ids))
	for i, id := range ids {
		if before, twice := last[id]; twice {
			t.next[before] = i
			t.waits[i]++
			t.groups[id].open++
		} else {
			t.groups[id] = &group{open: 1}
		}
		last[id] = i
	}
	wait := func(i int, need string) {
		if g := t.groups[need]; g != nil {
			g.waiting = append(g.waiting, i)
			t.waits[i]++
		}
	}
	trees := map[string][]int{}
	for i := range ids {
		for _, need := range blockers(i) {
			if job, all := Tree(need); all {
				trees[job] = append(trees[job], i)
			}
			wait(i, need)
		}
	}
	if len(trees) > 0 {
		for id := range t.groups {
			for _, job := range Ancestors(id) {
				for _, i := range trees[job] {
					wait(i, id)
				}
			}
		}
	}
	for i, waits := range t.waits {
		if waits == 0 {
			t.ready = append(t.ready, i)
		}
	}
	return t
}

// Next returns the submissions that can be stored now, at most so many, in the order of the
// call. None means that all others wait for what was returned before, or that nothing is
// left.
func (t *Together) Next(most int) []int {
	t.ready = slices.DeleteFunc(t.ready, func(i int) bool { return t.settled[i] })
	slices.Sort(t.ready)
	n := min(most, len(t.ready))
	some := t.ready[:n:n]
	t.ready = t.ready[n:]
	return some
}

// Stored records that a submission was stored, or was there before.
func (t *Together) Stored(index int) {
	if !t.settled[index] {
		t.settle(index, true)
	}
}

// Refuse records that a submission was refused, and returns those that are refused because
// of it.
func (t *Together) Refuse(index int) (because []Refusal) {
	if t.settled[index] {
		return nil
	}
	because = t.settle(index, false)
	for n := 0; n < len(because); n++ {
		because = append(because, t.settle(because[n].Index, false)...)
	}
	return because
}

// settle returns the submissions that are refused with it, which it marks as settled.
func (t *Together) settle(index int, stored bool) (refused []Refusal) {
	t.settled[index] = true
	if next := t.next[index]; next != 0 {
		t.release(next)
	}
	id := t.ids[index]
	g := t.groups[id]
	g.open--
	g.stored = g.stored || stored
	for _, i := range g.waiting {
		switch {
		case g.open > 0:
		case g.stored:
			t.release(i)
		case !t.settled[i]:
			t.settled[i] = true
			refused = append(refused, Refusal{Index: i, Need: id})
		}
	}
	return refused
}

// release makes a submission wait for one less.
func (t *Together) release(index int) {
	if t.waits[index]--; t.waits[index] == 0 && !t.settled[index] {
		t.ready = append(t.ready, index)
	}
}
