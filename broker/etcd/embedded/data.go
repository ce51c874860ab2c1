package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// dataName is the folder for etcd's own files in the data folder.
	dataName = "etcd"
	// markName is a file that is there while etcd starts for the first time.
	markName = "windlass.starting"
)

// prepareData makes sure that etcd starts from nothing or from a whole database.
// One whose very first start was cut short has a log without any member in it,
// and would wait for ever for one to be elected. A mark that is there from before
// the first file until the first start is done tells such a database, to which
// nothing can have been written, from one that is worth keeping. It returns
// whether the mark is set.
func prepareData(dir string) (marked bool, err error) {
	data, mark := filepath.Join(dir, dataName), filepath.Join(dir, markName)
	switch _, err := os.Lstat(mark); {
	case err == nil:
		if err := os.RemoveAll(data); err != nil {
			return false, fmt.Errorf("data folder: %w", err)
		}
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("data folder: %w", err)
	}
	switch _, err := os.Lstat(data); {
	case err == nil:
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("data folder: %w", err)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return false, fmt.Errorf("data folder: %w", err)
	}
	return true, syncFolder(dir)
}

// removeMark ends the first start. It is on disk when it returns, because a mark
// that came back after a crash of the machine would cost the data.
func removeMark(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return syncFolder(dir)
}

// syncFolder writes a folder's entries to disk.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
