package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// lockName is the name of the lock file in the data folder. The file is never removed, so
// that two servers cannot lock two files.
const lockName = "windlass.lock"

// lockBytesMax limits how much of a lock file is read.
const lockBytesMax = 64 << 10

// Holder is the process that has a data folder open, as it wrote into the lock file.
type Holder struct {
	// PID is its process ID, in its own PID namespace.
	PID int `json:"pid"`
	// Host is the name of its machine or container.
	Host string `json:"host"`
	// StartedAt is when it opened the folder, by its own clock.
	StartedAt time.Time `json:"started_at"`
	// Socket is the path of its unix socket, empty if it has none.
	Socket string `json:"socket"`
	// Version is the version of its etcd.
	Version string `json:"version"`
}

// String returns a description for people.
func (h Holder) String() string {
	if h.PID == 0 {
		return "a process that has not said which"
	}
	return fmt.Sprintf("process %d on %s since %s", h.PID, h.Host, h.StartedAt.Format(time.RFC3339))
}

// LockedError reports that another process, or another server of this one, has the data
// folder open.
type LockedError struct {
	// Dir is the data folder.
	Dir string
	// Holder is the process that has it open.
	Holder Holder
}

// Error implements error.
func (e *LockedError) Error() string {
	hint := "stop it first"
	if e.Holder.Socket != "" {
		hint = "connect to it with --broker " + e.Dir + ", or stop it first"
	}
	return fmt.Sprintf("data folder %s is in use by %v; %s", e.Dir, e.Holder, hint)
}

// lockFile is the lock file while this process holds its lock.
type lockFile struct{ file *os.File }

// A process that checks whether a lock is held locks it for a moment. A server that starts
// at that time retries.
const (
	lockAttemptsMax = 5
	lockPause       = 5 * time.Millisecond
)

// acquireLock locks a data folder, or returns at once an error with the holder. The kernel
// frees the lock when its process ends, so a file that a killed process left is no obstacle.
func acquireLock(dir string) (*lockFile, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	for attempt := 1; ; attempt++ {
		err = flock(file, true)
		if err == nil {
			return &lockFile{file}, nil
		}
		if !errors.Is(err, errLocked) || attempt == lockAttemptsMax {
			break
		}
		<-time.After(lockPause)
	}
	defer file.Close()
	if !errors.Is(err, errLocked) {
		return nil, fmt.Errorf("lock data folder: %s: %w", path, err)
	}
	// The holder may be writing the file at this moment.
	holder, _ := readHolder(file)
	return nil, &LockedError{Dir: dir, Holder: holder}
}

// write writes the holder into the file.
func (l *lockFile) write(h Holder) error {
	data, err := json.Marshal(h)
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(data, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	return nil
}

// release frees the lock and leaves an empty file.
func (l *lockFile) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// holderOf returns the holder of a folder's lock, and ErrNotRunning if there is none.
func holderOf(dir string) (Holder, error) {
	file, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		if _, statErr := os.Stat(dir); statErr != nil {
			return Holder{}, fmt.Errorf("data folder: %w", statErr)
		}
		return Holder{}, fmt.Errorf("data folder %s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return Holder{}, fmt.Errorf("data folder: %w", err)
	}
	defer file.Close() // which also frees the lock
	err = flock(file, false)
	if err == nil {
		return Holder{}, fmt.Errorf("data folder %s: %w", dir, ErrNotRunning)
	}
	if !errors.Is(err, errLocked) {
		return Holder{}, fmt.Errorf("data folder %s: %w", dir, err)
	}
	return readHolder(file)
}

func readHolder(file *os.File) (Holder, error) {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, lockBytesMax))
	if err != nil {
		return Holder{}, fmt.Errorf("lock file: %w", err)
	}
	var h Holder
	if err := json.Unmarshal(data, &h); err != nil {
		return Holder{}, fmt.Errorf("lock file %s: %w", file.Name(), err)
	}
	return h, nil
}
