// Package depend says which tasks a task has to wait for. It is pure: it takes
// names and returns names.
//
// A task waits while the task of any of its blockers exists, that is, while it
// is pending or being worked on. A blocker that was never submitted, or is
// done, blocks nothing.
package depend

import (
	"slices"
	"strings"
)

// Separator joins the path of a tree job into its ID.
const Separator = "|"

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
// each once, in that order.
func Blockers(id string, needs []string) []string {
	blockers := Ancestors(id)
	seen := make(map[string]bool, len(blockers)+len(needs))
	for _, b := range blockers {
		seen[b] = true
	}
	for _, need := range needs {
		if !seen[need] {
			seen[need] = true
			blockers = append(blockers, need)
		}
	}
	return blockers
}

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
