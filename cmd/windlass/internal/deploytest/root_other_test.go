//go:build e2e && !linux

package deploytest

import "os/exec"

// inRoot is for Linux.
func inRoot(_ string, argv ...string) *exec.Cmd { return exec.Command(argv[0], argv[1:]...) }
