//go:build race

package integration_test

// raceDetector tells that the tests run with it, and are scheduled otherwise.
const raceDetector = true
