// Package balancer has Metafora's balancers for windlass.Config.Balancer.
//
//	AcceptAll   claims everything, releases nothing
//	Fair        the same number of tasks on every node, within a threshold
//	Resource    the limits of a resource, Memory for one, around any of them
//
// AcceptAll and Fair look only at counts; the default of windlass.Config balances nodes
// more evenly with fewer moves.
//
// Resource keeps a node below limits of its own. Usage, in percent:
//
//	0 ─────────────── claim limit ─────────────── release limit ───────── 100
//	│ Next decides    │ claims nothing            │ gives the youngest task
//	│                 │                           │ away, one at a time
//
// It claims in steps, because the need of a task shows only when it runs. It releases
// tasks only while others take them: if it released one task and no node has room for
// it, it stops. A task that comes back is left alone for a time that doubles. So a
// cluster without room comes to rest, with waiting tasks or nodes above a limit, and
// tasks do not move in circles.
//
// It reserves nothing and guarantees no limit: tasks grow after they were claimed. A
// limit that must hold needs the operating system.
//
// # Reviews
//
// Counts change when tasks do; memory changes by itself. Resource is a
// windlass.Reviewer, which is also called when nothing in the cluster changed.
package balancer
