// Package tree queues jobs in a tree and shows how they are. A job is a task whose
// ID is its place in the tree, and it waits until all jobs above it are done; nodes
// run it by a handler for its type, or take it by Node.Dequeue. A Tree queues, also
// under every job that matches a Pattern; what it reads is a Forest, which says how
// far any part has come, and draws it for a terminal.
//
//	● requestFile  alpha  running on node-1
//	├─ ◌ downloadFile  alpha  blocked
//	│  └─ ◌ processFile  alpha  blocked, waits for table_beta
//	└─ ✓ cleanUp  alpha  completed in 3.2s
//
// That no job starts before those above it and those that it needs are completed,
// and that one which failed blocks what is below it, is the business of the
// transaction that claims it; this package only submits tasks and reads. What a
// Forest says is as old as what it was made of. A job whose ancestors were pruned is still shown, below places that
// are marked as not queued; what a job is called, or what its error says, cannot
// reach the terminal as anything but text. An estimate of the time left goes by
// the latest endings, and there is none where it would be a guess.
package tree
