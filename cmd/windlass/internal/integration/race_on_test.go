//go:build race

package integration_test

// raceDetector reports whether the race detector is on, which slows the tests down.
const raceDetector = true
