// Package tree queues jobs in a tree and shows their progress. A job is a task whose ID
// is its place in the tree, and it waits until all its ancestors are done. Nodes run it
// with a handler for its type, or take it by Node.Dequeue. A Tree queues jobs, also
// under every job that matches a Pattern. It reads into a Forest, which computes the
// progress of any part and draws it for a terminal.
//
//	● requestFile  alpha  running on node-1
//	├─ ◌ downloadFile  alpha  blocked
//	│  └─ ◌ processFile  alpha  blocked, waits for table_beta
//	└─ ✓ cleanUp  alpha  completed in 3.2s
//
// The transaction that claims a job ensures that it does not start before its ancestors
// and the jobs it needs are completed, and that a failed job blocks those below it.
// This package only submits tasks and reads. A Forest is as old as the data it was made
// of. A job whose ancestors were pruned is still shown, below places marked as not
// queued. The name and the error of a job reach the terminal only as plain text. An
// estimate of the remaining time uses the latest endings; there is none where it would
// be a guess.
package tree
