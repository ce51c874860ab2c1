// Package view has the types of the JSON of the command line and of the HTTP API, so that a
// program that parses one can parse the other. It parses the input of both, which are the
// lines of a file of tasks or jobs and the edits of a plan, and formats ages, verdicts and
// names for people. It prints nothing and makes no call to a broker.
package view
