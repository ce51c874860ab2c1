//go:build e2e && linux

package browsertest

import (
	"os"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/testprogram"
)

// program is the built windlass.
var program string

// TestMain builds windlass if the tests are going to need it.
func TestMain(m *testing.M) {
	if chromium() == "" {
		os.Exit(m.Run()) // every test skips itself
	}
	testprogram.Main(m, &program)
}
