package placement

import "github.com/windlass-go/windlass/internal/heap"

// vessel is a node that tasks are assigned to.
type vessel struct {
	// load is its current load, weight its share, capacity the limit on load, zero for
	// none.
	load, weight, capacity int
	// most is how many tasks it takes at most.
	most int
}

// room returns how many more tasks of a weight fit.
func (v vessel) room(each, most int) int {
	if most = min(most, v.most); v.capacity == 0 {
		return most
	}
	return min(max((v.capacity-v.load)/each, 0), most)
}

// fill divides n tasks of one weight. Each goes to the vessel that would have the
// lowest load for its weight with it, the first among equals. It returns how many each
// gets, in the order of vessels, and how many fit nowhere.
func fill(vessels []vessel, n, each int) (gets []int, left int) {
	gets = make([]int, len(vessels))
	left = n
	if n > len(vessels) { // or one by one is as quick
		level := lowerLevel(vessels, n, each)
		for i, v := range vessels {
			gets[i] = below(v, level, n, each)
			left -= gets[i]
		}
	}
	q := heap.New(func(a, b *filled) bool { // the least loaded with one more task
		left, right := (a.load+each)*b.weight, (b.load+each)*a.weight
		return left < right || (left == right && a.i < b.i)
	}, nil)
	for i, v := range vessels {
		if v.room(each, n) > gets[i] {
			v.load += gets[i] * each
			v.most -= gets[i]
			q.Push(&filled{vessel: v, i: i})
		}
	}
	for ; left > 0 && q.Len() > 0; left-- {
		next := q.First()
		gets[next.i]++
		next.most--
		if next.load += each; next.room(each, 1) == 0 {
			q.Pop()
			continue
		}
		q.Fix(0)
	}
	return gets, left
}

// below returns how many of n tasks a vessel takes without exceeding a level, its load
// for its weight.
func below(v vessel, level float64, n, each int) int {
	over := (level*float64(v.weight) - float64(v.load)) / float64(each)
	return min(max(int(over), 0), v.room(each, n))
}

// lowerLevel returns a level that n tasks suffice to reach, close to the highest such
// level. In every fair division the vessels reach it.
func lowerLevel(vessels []vessel, n, each int) float64 {
	lo, hi := 0.0, 0.0
	for _, v := range vessels {
		hi = max(hi, float64(v.load+n*each)/float64(v.weight))
	}
	const halvings = 50
	for range halvings {
		level := (lo + hi) / 2
		total := 0
		for _, v := range vessels {
			total += below(v, level, n, each)
		}
		if total > n {
			hi = level
		} else {
			lo = level
		}
	}
	return lo
}

type filled struct {
	vessel
	i int // its position in the vessels, which are in the order of names
}
