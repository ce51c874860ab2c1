// Package bench measures Windlass beside the raw limits of the broker in use,
// in the same run, and reports ratios: absolute figures belong to a machine. It
// has no code but benchmarks; make bench runs them.
package bench
