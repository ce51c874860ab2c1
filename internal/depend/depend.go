// Package depend says which tasks a task has to wait for. It is pure: it takes
// names and returns names.
//
// A task waits while the task of any of its blockers exists, that is, while it
// is pending or being worked on. A blocker that was never submitted, or is
// done, blocks nothing.
//
// A need of all below a job is spelled as the job's ID and "|*". It stands for the jobs
// below it that there are, at any depth.
package depend

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Separator joins the path of a tree job into its ID.
const Separator = "|"

// allBelow follows the ID of a job in a need of all below it. No job has such an ID,
// because every segment of a path has a type.
const allBelow = Separator + "*"

// AllBelow is the need of all jobs below one.
func AllBelow(job string) string { return job + allBelow }

// Tree returns the job of a need of all below it. It returns false for a need of one task.
func Tree(need string) (job string, all bool) { return strings.CutSuffix(need, allBelow) }

// IsTree reports whether a need is that of all jobs below one.
func IsTree(need string) bool { return strings.HasSuffix(need, allBelow) }

// IsBelow reports whether an ID is below that of a job.
func IsBelow(id, job string) bool {
	return len(id) > len(job) && strings.HasPrefix(id, job) && strings.HasPrefix(id[len(job):], Separator)
}

// NeededAs returns the needs that stand for a task: its ID, and all below each job above it.
func NeededAs(id string) []string {
	needs := []string{id}
	for _, job := range Ancestors(id) {
		needs = append(needs, AllBelow(job))
	}
	return needs
}

// AddTrees adds to a graph, of what each task waits for, what the needs of all below a job
// stand for among its tasks.
func AddTrees(waits map[string][]string) {
	trees := map[string][]string{}
	for _, needs := range waits {
		for _, need := range needs {
			if IsTree(need) {
				trees[need] = nil
			}
		}
	}
	if len(trees) == 0 {
		return
	}
	for id := range waits {
		for _, job := range Ancestors(id) {
			if below, needed := trees[AllBelow(job)]; needed {
				trees[AllBelow(job)] = append(below, id)
			}
		}
	}
	for need, below := range trees {
		slices.Sort(below)
		waits[need] = append(waits[need], below...)
	}
}

// List names what a task waits for, the first ones of many, and says how many tasks these are
// if the names do not.
func List(first []string, tasks int) string {
	if !slices.ContainsFunc(first, IsTree) {
		return shorten.ListOf(first, tasks)
	}
	names := strings.Join(first[:min(len(first), listedMax)], ", ")
	if len(first) > listedMax {
		names += ", …"
	}
	if tasks == 1 {
		return names + " (1 task)"
	}
	return fmt.Sprintf("%s (%d tasks)", names, tasks)
}

// listedMax is how many names List shows beside a need of all below a job.
const listedMax = 3

// Ancestors are the IDs of the tree jobs above id, the root first. An ID
// without a separator has none.
func Ancestors(id string) []string {
	var above []string
	for i := range len(id) {
		if strings.HasPrefix(id[i:], Separator) && i > 0 {
			above = append(above, id[:i])
		}
	}
	return above
}

// Blockers are all tasks that id waits for: its ancestors and what it needs,
// each once, in that order. Before a need of all below a job comes that job.
func Blockers(id string, needs []string) []string {
	blockers := Ancestors(id)
	seen := make(map[string]bool, len(blockers)+len(needs))
	for _, b := range blockers {
		seen[b] = true
	}
	add := func(need string) {
		if !seen[need] {
			seen[need] = true
			blockers = append(blockers, need)
		}
	}
	for _, need := range needs {
		if job, all := Tree(need); all {
			add(job)
		}
		add(need)
	}
	return blockers
}

// Acyclic has the tasks from which no way leads into a cycle, given what each waits for. It
// takes a time that grows with the graph, where Cycle takes that for one task: Kahn's
// topological sort (doi.org/10.1145/368996.369025).
func Acyclic(waits map[string][]string) map[string]bool {
	open, waiting := map[string]int{}, map[string][]string{}
	var ready []string
	for id, needs := range waits {
		if open[id] = len(needs); len(needs) == 0 {
			ready = append(ready, id)
		}
		for _, need := range needs {
			if _, known := waits[need]; !known && waiting[need] == nil {
				ready = append(ready, need)
			}
			waiting[need] = append(waiting[need], id)
		}
	}
	acyclic := map[string]bool{}
	for len(ready) > 0 {
		id := ready[len(ready)-1]
		ready, acyclic[id] = ready[:len(ready)-1], true
		for _, next := range waiting[id] {
			if open[next]--; open[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	return acyclic
}

// AnyCycle is a way from some task back to itself, given what each waits for; nil if there is
// none.
func AnyCycle(waits map[string][]string) []string {
	acyclic := Acyclic(waits)
	for _, id := range slices.Sorted(maps.Keys(waits)) {
		if !acyclic[id] && !IsTree(id) {
			if path := Cycle(id, func(id string) []string { return waits[id] }); path != nil {
				return path
			}
		}
	}
	return nil
}

// NoWayBack is what a cycle breaks.
const NoWayBack = "must not lead back to the task itself"

// Arrows shows the way of a cycle.
func Arrows(path []string) string { return strings.Join(path, " → ") }

// Cycle is a way from a task back to itself, through what each waits for; nil if
// there is none.
func Cycle(id string, waits func(id string) []string) []string {
	came := map[string]string{}
	stack := []string{id}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range waits(at) {
			if next == id {
				path := []string{id}
				for ; at != id; at = came[at] {
					path = append(path, at)
				}
				path = append(path, id)
				slices.Reverse(path)
				return path
			}
			if _, seen := came[next]; !seen {
				came[next] = at
				stack = append(stack, next)
			}
		}
	}
	return nil
}
