//go:build e2e && linux

package acceptance

import (
	"os"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/testprogram"
)

// program is the built windlass.
var program string

// TestMain builds windlass and runs the tests, or is an etcd member when it is
// told to: the tests start this binary again for the members of their clusters.
func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		os.Exit(runMember())
	}
	testprogram.Main(m, &program)
}
