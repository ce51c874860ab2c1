// Package top shows a cluster live in a terminal.
//
//	Client.WatchTasks ─┐
//	Client.WatchNodes ─┼─▶ feed ── what changed, each thing once ──▶ model ──▶ frame
//	election.Watch    ─┘    ▲                  every Refresh           │
//	tree.Watch, while shown ┘                                   control ──▶ broker
//
// The feed follows the broker by the library's own watches. It keeps the latest change
// of each task, node or election until the model takes them, so that a slow terminal
// costs no more memory than there are tasks. The model is pure: messages in, a frame
// out. It keeps all tasks sorted, inserts changed ones without sorting the others, and
// draws only the rows of the window.
//
// It keeps no history: rates count from its start, and nothing is stored.
//
// If the broker is unreachable, the frame says since when, and continues to show what
// was known. A watch does not report that the broker is back if nothing changes, so in
// that case only, the broker is asked from time to time.
//
// Names come from whoever submits tasks or starts nodes. Their text reaches the
// terminal only through view.Printable.
package top
