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

// lockName is the name of the lock file in the data folder. The file stays when
// the server has gone: to remove it would let two servers lock two files.
const lockName = "windlass.lock"

// lockBytesMax bounds what is read of a lock file.
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

// A process that only checks whether a lock is held holds it for a moment. A server
// that starts right then retries.
const (
	lockAttemptsMax = 5
	lockPause       = 5 * time.Millisecond
)

// acquireLock locks a data folder, or says at once who holds the lock. The
// kernel frees the lock when its process ends, so a file that a killed process
// left behind is simply taken over.
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
	defer file.Close() // nothing was written
	if !errors.Is(err, errLocked) {
		return nil, fmt.Errorf("lock data folder: %s: %w", path, err)
	}
	// What the holder wrote may be incomplete, if it is about to write it.
	holder, _ := readHolder(file)
	return nil, &LockedError{Dir: dir, Holder: holder}
}

// write says who holds the lock.
func (l *lockFile) write(h Holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	if _, err := l.file.WriteAt(append(data, '\n'), 0); err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	return nil
}

// release frees the lock and leaves an empty file.
func (l *lockFile) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// holderOf tells who holds the lock of a folder. It is ErrNotRunning when
// nobody does, whatever is left in the file.
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
	// Closing the file also frees the lock, if it could be had.
	defer file.Close() // only read
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
