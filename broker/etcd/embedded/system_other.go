//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

var errLocked = errors.New("locked")

// flock is not supported on this system, and without it two servers could open one folder.
func flock(*os.File, bool) error {
	return fmt.Errorf("an embedded etcd on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func ownerOf(os.FileInfo) (uid int, known bool) { return 0, false }
