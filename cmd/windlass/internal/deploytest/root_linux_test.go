//go:build e2e

package deploytest

import (
	"os/exec"
	"syscall"
)

// inRoot runs a program as nobody in particular, in a root folder.
func inRoot(root string, argv ...string) *exec.Cmd {
	return &exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532},
	}}
}
