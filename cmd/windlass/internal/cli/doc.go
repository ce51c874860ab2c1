// Package cli is the command line of windlass: one file for each noun or verb. Main is
// a function from arguments and streams to an exit code, so that tests use it as users
// do. Standard output carries data only; everything meant for a person to read
// meanwhile goes to standard error.
package cli
