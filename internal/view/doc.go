// Package view has the types of the JSON of the command line and of the HTTP API, so that a
// program that parses one can parse the other. It also parses the input of both: the lines
// of a file of tasks or jobs, and the edits of a plan. It also has the words of their texts
// for people. It prints nothing and makes no call to a broker.
package view
