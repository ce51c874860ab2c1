// Package tree shows a tree of jobs. A job is a task whose ID is its place in the
// tree, and it waits until all jobs above it are done; this package puts the jobs
// that were read together as a Forest, finds those that match a Pattern, says how
// far any part has come, and draws it for a terminal or for Graphviz.
//
//	● requestFile  alpha  running on node-1
//	├─ ◌ downloadFile  alpha  blocked
//	│  └─ ◌ processFile  alpha  blocked, waits for table_beta
//	└─ ✓ cleanUp  alpha  completed in 3.2s
//
// It does no I/O and has no clock, and it promises nothing about the order in
// which jobs run: that is the node's business. What it says is as old as what it
// was given. A job whose ancestors were pruned is still shown, below places that
// are marked as not queued; what a job is called, or what its error says, cannot
// reach the terminal as anything but text. An estimate of the time left goes by
// the latest endings, and there is none where it would be a guess.
package tree
