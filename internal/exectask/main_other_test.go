//go:build !linux

package exectask

import (
	"errors"
	"io"
)

// nodeMain is part of the tests that look at /proc.
func nodeMain(io.Reader) error { return errors.New("only on linux") }
