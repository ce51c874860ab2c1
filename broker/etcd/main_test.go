package etcd_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or an etcd member when it is told to: the tests start
// this binary again for the members of their clusters.
func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		os.Exit(runMember())
	}
	goleak.VerifyTestMain(m)
}
