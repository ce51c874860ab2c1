// Package testprogram builds windlass for tests of the whole program.
package testprogram

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package: it builds windlass in a folder that goes when
// the tests have run, says in program where it is, runs the tests, and sees that they
// leave no goroutine behind. The environment is added to that of the build.
func Main(m *testing.M, program *string, environment ...string) {
	dir, err := os.MkdirTemp("", "windlass-program-")
	if err == nil {
		*program = filepath.Join(dir, "windlass")
		err = build(*program, environment)
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

func build(path string, environment []string) error {
	cmd := exec.Command("go", "build", "-o", path, "github.com/windlass-go/windlass/cmd/windlass")
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
