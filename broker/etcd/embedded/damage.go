package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// DamagedError reports that the files in a data folder cannot be read.
type DamagedError struct {
	// Path is the file that cannot be read, and Cause the reason.
	Path  string
	Cause error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v; restore the data folder from a copy", e.Path, e.Cause)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Cause }

// checkData reads the files that etcd is about to read. etcd itself panics, in a goroutine of
// its own, if it cannot open or find a database, and truncates a damaged log where the damage
// begins.
func checkData(dir string) error {
	member := filepath.Join(dir, dataName, "member")
	database, logs := filepath.Join(member, "snap", "db"), filepath.Join(member, "wal")
	_, err := os.Stat(database)
	hasDatabase, hasLog := !errors.Is(err, fs.ErrNotExist), wal.Exist(logs)
	if hasDatabase {
		if err := checkDatabase(database); err != nil {
			return err
		}
	}
	switch {
	case !hasLog && hasDatabase:
		return &DamagedError{logs, fmt.Errorf("the log is missing, and %s is there", database)}
	case !hasLog:
		return nil
	}
	newest, err := checkLog(logs)
	if err == nil && newest.GetIndex() > 0 && !hasDatabase {
		return &DamagedError{database, fmt.Errorf("the database is missing, and the log goes on from revision %d of it", newest.GetIndex())}
	}
	return err
}

// checkDatabase opens the database.
func checkDatabase(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	switch {
	case errors.Is(err, bberrors.ErrTimeout):
		return fmt.Errorf("%s is in use by another process", path)
	case isInaccessible(err):
		return fmt.Errorf("open %s: %w", path, err)
	case err != nil:
		return &DamagedError{path, err}
	}
	return db.Close()
}

// isInaccessible reports whether a file could not be read for a reason other than its
// content.
func isInaccessible(err error) bool {
	return slices.ContainsFunc([]error{fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.EIO},
		func(reason error) bool { return errors.Is(err, reason) })
}

// checkLog reads the log to its end, and returns the newest snapshot from which it continues.
func checkLog(dir string) (*walpb.Snapshot, error) {
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	newest := &walpb.Snapshot{}
	if n := len(snapshots); n > 0 {
		newest = snapshots[n-1]
	}
	if err == nil {
		_, err = wal.Verify(zap.NewNop(), dir, newest)
	}
	switch {
	case isInaccessible(err):
		return nil, fmt.Errorf("read %s: %w", dir, err)
	case err != nil:
		return nil, &DamagedError{dir, err}
	}
	return newest, nil
}
