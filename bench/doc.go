// Package bench compares Windlass with the raw limits of its broker, and with
// alternatives to Windlass. It has no code except benchmarks, in test files; make bench
// runs them, and docs/internals/benchmarks.md has their results.
//
// The stores are separate processes unless a benchmark says otherwise. So are the
// workers of BenchmarkPeers: the test's binary, started again.
package bench
