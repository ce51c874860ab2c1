//go:build linux

package browsertest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the built windlass.
var program string

// TestMain builds windlass if the tests are going to need it.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() || chromium() == "" {
		os.Exit(m.Run()) // every test skips itself
	}
	dir, err := os.MkdirTemp("", "wl-browser-program-")
	if err == nil {
		program = filepath.Join(dir, "windlass")
		build := exec.Command("go", "build", "-o", program, "../../cmd/windlass")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build windlass:", err)
		_ = os.RemoveAll(dir) // it may not have been made
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}
