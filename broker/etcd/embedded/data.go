package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// dataName is the folder for etcd's own files in the data folder.
	dataName = "etcd"
	// markName is a file that exists while etcd starts for the first time.
	markName = "windlass.starting"
)

// prepareData makes sure that etcd starts without data or with a complete database. If the
// very first start is interrupted, the log has no member, and etcd would wait for an election
// forever. A mark exists from before the first file until the end of the first start. If it
// is found, nothing can have been written to the database, and it is removed. prepareData
// returns whether the mark is set.
func prepareData(dir string) (marked bool, err error) {
	data, mark := filepath.Join(dir, dataName), filepath.Join(dir, markName)
	if _, err := os.Lstat(mark); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = os.RemoveAll(data)
		}
		return err == nil, err
	}
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return false, err
	}
	return true, syncFolder(dir)
}

// removeMark ends the first start. It syncs the folder, because a mark that reappeared after
// a crash of the machine would cost the data.
func removeMark(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder writes a folder's entries to disk.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
