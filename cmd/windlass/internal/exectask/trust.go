package exectask

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// onlyOurs returns an error if users other than this one and root could change the file at
// a path without links, or replace it through a folder above it. In a sticky folder such
// as /tmp nobody can replace the files of others.
func onlyOurs(path string) error {
	for {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could replace it", path, stat.Uid)
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
