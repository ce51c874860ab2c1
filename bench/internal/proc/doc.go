// Package proc runs the processes of a comparison: this program again, in one of
// its roles, and the servers of others.
//
// A process talks over its standard streams, a line of JSON for each thing that it
// says. It ends when its standard input does, so nothing is left behind however
// this process ends; a server that does not know of that rule has a keeper, this
// program again, that does. What a process wrote to its standard error last is in
// the error with which it ended.
//
// It is not a supervisor: a process that ends is not started again.
package proc
