// Package balancer has balancers after Metafora's for windlass.Config.Balancer.
//
//	AcceptAll   claims everything, releases nothing
//	Fair        the same number of tasks on every node, within a threshold
//	Resource    the limits of a resource, Memory for one, around any of them
//
// AcceptAll and Fair look at nothing but counts; the default of windlass.Config
// keeps nodes more even with fewer moves.
//
// Resource keeps a node below limits of its own. What is used, in percent:
//
//	0 ─────────────── claim limit ─────────────── release limit ───────── 100
//	│ Next decides    │ claims nothing            │ gives the youngest task
//	│                 │                           │ away, one at a time
//
// It claims in steps, because what a task needs shows only when it runs, and it
// gives away only what others take: one task that it released for which nobody
// has room is the sign to stop. A task that comes back is left in peace for a
// while that doubles. So a cluster without room ends up at rest, with tasks that
// wait or nodes that are above a limit, and not with tasks that go round.
//
// It does not reserve anything, and it promises no limit: tasks grow after they
// were claimed. A limit that must hold is the operating system's to keep.
//
// # Being asked again
//
// Counts change when tasks do; memory changes by itself. Resource is a
// windlass.Reviewer, which is asked although nothing happened.
package balancer
