// Package statemachine is what a task's state may be and how it changes. It is
// pure: tables and functions over values, without I/O, clock or randomness of
// their own.
//
// A task is runnable, sleeping until a time, paused until it is told to run, or
// in fault until its error handler decides; in the end it is completed, failed or
// killed, and accepts nothing. What changes it is a message: sent to it, returned
// by its handler, or decided by its error handler. Absent state means runnable.
//
// The table is in state.go, and nowhere else: docs/states.md draws it, checked by
// a test, and says what each message does to a task that runs.
package statemachine
