// Package statemachine is what a task's state may be and how it changes. It is
// pure: tables and functions over values, without I/O, clock or randomness of
// their own.
//
//	        run, checkpoint, release
//	               +--+
//	               |  v   sleep             pause
//	+------------ runnable ----> sleeping ----------> paused
//	|   |   |        ^  ^           |  ^                 |
//	|   |   |        |  +-- run ----+  +---- sleep ------+
//	|   |   | error  +------------------------- run -----+
//	|   |   v        |
//	|   |  fault ----+ run      fault --sleep--> sleeping
//	|   |   |  \
//	|   |   |   +--kill--> killed
//	|   |   +--error--> failed
//	|   +--kill--> killed (from sleeping and paused as well)
//	+--complete--> completed
//
// Absent state means runnable. Completed, failed and killed are terminal: they
// accept nothing.
package statemachine
