package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// DamagedError tells that the files in a data folder cannot be read.
type DamagedError struct {
	// Path is what cannot be read, and Cause why.
	Path  string
	Cause error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v; restore the data folder from a copy", e.Path, e.Cause)
}

// Unwrap makes the cause visible.
func (e *DamagedError) Unwrap() error { return e.Cause }

// checkData reads what etcd is about to read. etcd itself panics over a database
// that it cannot open, in a goroutine of its own, and cuts a log that is damaged
// at its beginning off there, which leaves nothing of it.
func checkData(dir string) error {
	member := filepath.Join(dir, dataName, "member")
	path := filepath.Join(member, "snap", "db")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return &DamagedError{path, err}
		}
		if err := db.Close(); err != nil {
			return &DamagedError{path, err}
		}
	}
	logs := filepath.Join(member, "wal")
	if !wal.Exist(logs) {
		return nil
	}
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), logs)
	if err != nil {
		return &DamagedError{logs, err}
	}
	newest := &walpb.Snapshot{}
	if len(snapshots) > 0 {
		newest = snapshots[len(snapshots)-1]
	}
	if _, err := wal.Verify(zap.NewNop(), logs, newest); err != nil {
		return &DamagedError{logs, err}
	}
	return nil
}
