package exectask

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// onlyOurs says by what others than this user and root could change what a path names
// that has no links: the file itself, or a folder on the way to it. A sticky folder, as
// /tmp is, lets nobody replace what another user has there.
func onlyOurs(path string) error {
	for {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could change what it is", path, stat.Uid)
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if mode := info.Mode().Perm(); mode&0o022 != 0 && !sticky {
			return fmt.Errorf("%s may be written by others (mode %04o); chmod go-w %[1]s", path, mode)
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}
