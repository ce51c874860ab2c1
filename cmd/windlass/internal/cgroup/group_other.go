//go:build !linux

package cgroup

import (
	"os"
	"time"
)

// Group is a group of processes, of which there are none here.
type Group struct{}

// Make returns ErrUnavailable.
func Make() (*Group, error) { return nil, ErrUnavailable }

// Open returns ErrUnavailable.
func Open(string) (*Group, error) { return nil, ErrUnavailable }

// Inherit is never called.
func Inherit(int, string) *Group { return nil }

// Folder is never called.
func (*Group) Folder() *os.File { return nil }

// Move returns ErrUnavailable.
func Move(int, string) error { return ErrUnavailable }

// ChildOf is never called.
func (*Group) ChildOf(int) string { return "" }

// Child returns ErrUnavailable.
func (*Group) Child(string) (*Group, error) { return nil, ErrUnavailable }

// Dir is never called.
func (*Group) Dir() string { return "" }

// FD is never called.
func (*Group) FD() int { return -1 }

// Kill is never called.
func (*Group) Kill() error { return ErrUnavailable }

// Alive is never called.
func (*Group) Alive() (bool, error) { return false, ErrUnavailable }

// Remove is never called.
func (*Group) Remove() error { return ErrUnavailable }

// End is never called.
func (*Group) End(time.Duration) error { return ErrUnavailable }

// Sweep does nothing.
func Sweep(time.Duration) error { return nil }

// KillBelow kills nothing.
func KillBelow(string) error { return ErrUnavailable }
