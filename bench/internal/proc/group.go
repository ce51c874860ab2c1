//go:build unix

package proc

import "syscall"

// apart puts a process out of reach of the terminal's signals, which this one
// answers for all.
func apart(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true
	return attr
}

// As makes a command run as another user, if this process may.
func As(uid, gid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
