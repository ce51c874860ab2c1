//go:build !linux

package balancer

import (
	"errors"
	"fmt"
	"runtime"
)

// memorySource has nothing to say here.
type memorySource struct{}

func openMemory(string) (memorySource, error) {
	return memorySource{}, fmt.Errorf("memory of %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (memorySource) used() (used, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
