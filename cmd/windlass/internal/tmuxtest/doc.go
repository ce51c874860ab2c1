// Package tmuxtest tests what the built program draws on a real terminal, from
// outside: it starts windlass in tmux, sends keys, and reads the screen. Its tests
// hold none of our code.
//
//	test ── send-keys ──▶ tmux ── a terminal ──▶ windlass top ──▶ windlass dev
//	  ▲                     │
//	  └── capture-pane ◀────┘
//
// Whatever a test waits for it sees on the screen, or by "windlass -o json". The
// server of tmux has a socket in the test's own folder, so that it disturbs nobody's.
// Without tmux the tests say that they were skipped.
package tmuxtest
