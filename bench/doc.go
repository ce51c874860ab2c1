// Package bench measures Windlass beside the raw limits of the broker in use, and beside
// what else could be used. It has no code but benchmarks, in the files of tests; make
// bench runs them, and docs/benchmarks.md says what they gave.
//
// The stores are processes of their own where a benchmark does not say otherwise, and so
// are the workers of BenchmarkPeers: the test's binary started again.
package bench
