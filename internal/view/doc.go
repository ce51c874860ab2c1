// Package view has what the command line prints with -o json and what the HTTP
// API answers, as one set of types: whoever reads the one can read the other. It
// also reads what both take in: the lines of a file of tasks or jobs, and the
// edits of a plan. It prints nothing and asks nothing of a broker.
package view
