// Package bench measures Windlass beside the raw limits of the broker in use,
// in the same run, and reports ratios: absolute figures belong to a machine. It
// has no code but benchmarks; make bench runs them. The command below it, cmd/peers,
// compares with what else could be used; make bench-peers runs that.
package bench
