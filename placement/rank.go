package placement

import (
	"cmp"
	"math"
)

// Rank returns how many nodes are to claim a task before the named one does, if the
// plan assigns it to first. That node has rank 0, and the others follow in their order
// of preference. Nodes that are closed or may not run the task are left out; a node
// that is not listed comes last.
func Rank(task string, c *Class, nodes []Node, first, name string) int {
	if name == first {
		return 0
	}
	hash := hashTask(task)
	self := -1
	for i := range nodes {
		if nodes[i].Name == name {
			self = i
		}
	}
	rank := 0
	if self >= 0 && first != "" {
		rank = 1
	}
	for i := range nodes {
		n := &nodes[i]
		if i == self || n.Name == first || n.Closed != "" || n.Excludes(c) != "" {
			continue
		}
		if self < 0 || comparePreference(n, &nodes[self], c, hash) < 0 {
			rank++
		}
	}
	return rank
}

// comparePreference returns a negative number if a should get a task rather than b,
// whatever their loads.
func comparePreference(a, b *Node, c *Class, task uint64) int {
	if len(c.Prefer) > 0 {
		if order := cmp.Compare(b.Preferred(c), a.Preferred(c)); order != 0 {
			return order
		}
	}
	return compareScore(hashNode(a.Name), hashNode(b.Name), a.Name, b.Name, task)
}

func compareScore(a, b uint64, nameA, nameB string, task uint64) int {
	if order := cmp.Compare(score(b, task), score(a, task)); order != 0 {
		return order
	}
	return cmp.Compare(nameA, nameB)
}

// FNV-1a, 64 bits.
const fnvOffset, fnvPrime = 14695981039346656037, 1099511628211

func hashNode(name string) uint64 { return mix(fnv(fnvOffset, name)) }

func hashTask(id string) uint64 { return mix(fnv(fnv(fnvOffset, "task\xff"), id)) }

func fnv(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// score is how well a task and a node go together.
func score(node, task uint64) uint64 { return mix(node ^ task) }

// weighted is a score by which nodes win tasks in proportion to their weights.
// (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005.)
func weighted(node, task uint64, weight int) float64 {
	const bits = 53 // of a float64
	u := (float64(score(node, task)>>(64-bits)) + 0.5) / (1 << bits)
	return float64(weight) / -math.Log(u)
}

// mix is the finaliser of splitmix64, because FNV alone leaves the high bits of
// similar names alike. (Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", 2014.)
func mix(h uint64) uint64 {
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb
	return h ^ (h >> 31)
}
