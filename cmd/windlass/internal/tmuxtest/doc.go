// Package tmuxtest tests what the built program draws on a real terminal, from outside:
// it starts windlass in tmux, sends keys, and reads the screen. Its tests use none of
// our code.
//
//	test ── send-keys ──▶ tmux ── a terminal ──▶ windlass top ──▶ windlass dev
//	  ▲                     │
//	  └── capture-pane ◀────┘
//
// A test waits for what the screen shows, or for the output of "windlass -o json". The
// tmux server has a socket in the test's own folder, so that it disturbs no other.
// Without tmux the tests are skipped, and say so.
package tmuxtest
