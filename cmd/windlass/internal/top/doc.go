// Package top shows a cluster live in a terminal.
//
//	Client.WatchTasks ─┐
//	Client.WatchNodes ─┼─▶ feed ── what changed, each thing once ──▶ model ──▶ frame
//	election.Watch    ─┘    ▲                  every Refresh           │
//	tree.Watch, while shown ┘                                   control ──▶ broker
//
// The feed follows the broker by the library's own watches and keeps the latest
// change of each thing until the model takes them, so that a terminal that does not
// keep up costs no more memory than there are tasks. The model is pure: messages in,
// a frame out. It keeps all tasks sorted, puts changed ones in their places without
// sorting the others, and draws the rows of the window only.
//
// What it does not do: remember. Rates count from its start, and nothing is kept.
//
// When the broker goes away the frame says since when, and goes on showing what was
// known. As a watch does not tell that it is back where nothing changes, the broker
// is asked once in a while then, and only then.
//
// Names come from whoever submits tasks or starts nodes. No text of theirs reaches
// the terminal without view.Printable.
package top
