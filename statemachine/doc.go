// Package statemachine defines the states of a task and their transitions. It is pure:
// tables and functions over values, without I/O, clock or randomness of their own.
//
// A task is runnable, sleeping until a time, paused until a command runs it, or in
// fault until its error handler decides. In the end it is completed, failed or killed,
// and accepts no further message. A message changes the state. It is sent to the task,
// returned by its handler, or decided by its error handler. An absent state means
// runnable.
//
// The transition table is in state.go only. docs/guide/states.md draws it, checked by a test,
// and says what each message does to a running task.
package statemachine
