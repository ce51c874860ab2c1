// Package view has the output of the command line with -o json and of the HTTP API, as
// one set of types: whoever parses the one can parse the other. It also parses the
// input of both: the lines of a file of tasks or jobs, and the edits of a plan. It
// prints nothing and makes no call to a broker.
package view
