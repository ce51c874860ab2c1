package placement

import (
	"cmp"
	"slices"
)

// Load is a node with the number of tasks it has.
type Load struct {
	Node  string
	Tasks int
}

// Shares says how many tasks each node should have so that all have the same
// number, but for one, and as few tasks as possible move: nodes that have more
// get the larger share. unowned is how many tasks nobody has. The result is in
// the order of loads.
func Shares(loads []Load, unowned int) []int {
	if len(loads) == 0 {
		return nil
	}
	total := unowned
	order := make([]int, len(loads))
	for i, l := range loads {
		total += l.Tasks
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(loads[b].Tasks, loads[a].Tasks), cmp.Compare(loads[a].Node, loads[b].Node))
	})
	shares := make([]int, len(loads))
	small, larger := total/len(loads), total%len(loads)
	for place, i := range order {
		shares[i] = small
		if place < larger {
			shares[i]++
		}
	}
	return shares
}

// Rank is the place of node among nodes for claiming task, zero for the first.
// A node that is not among them comes after all.
func Rank(task, node string, nodes []string) int {
	if !slices.Contains(nodes, node) {
		return len(nodes)
	}
	mine := score(task, node)
	rank := 0
	for _, other := range nodes {
		theirs := score(task, other)
		if theirs > mine || (theirs == mine && other < node) {
			rank++
		}
	}
	return rank
}

// score is FNV-1a over both names, mixed at the end (the finaliser of
// splitmix64), because FNV alone leaves the high bits of similar names alike.
func score(task, node string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(node) {
		h = (h ^ uint64(node[i])) * prime
	}
	h = (h ^ 0xff) * prime // no name contains this byte: keeps "a"+"bc" from being "ab"+"c"
	for i := range len(task) {
		h = (h ^ uint64(task[i])) * prime
	}
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb
	return h ^ (h >> 31)
}
