package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// errNoDev: nobody of this user runs a dev.
var errNoDev = errors.New("no broker is named, and this user runs no \"windlass dev\"")

// devFile is where a running dev says where its data is.
type devFile struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"`
}

// runDir is this user's private folder for what lives as long as a process. In
// a shared temporary folder someone else could have made it first, so whose it
// is, and that it is private, is checked each time.
func runDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "windlass-"+strconv.Itoa(os.Getuid()))
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		dir = filepath.Join(runtime, "windlass")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("run folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("run folder: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUs(info) {
		return "", fmt.Errorf("run folder %s: %w: it must be a folder of this user's with mode 0700", dir, fs.ErrPermission)
	}
	return dir, nil
}

func devFilePath() (string, error) {
	dir, err := runDir()
	return filepath.Join(dir, "dev.json"), err
}

// announceDev lets commands without --broker find this dev, and returns what
// takes that back.
func announceDev(dir string) (withdraw func(), err error) {
	path, err := devFilePath()
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(devFile{PID: os.Getpid(), Dir: dir})
	if err != nil {
		return nil, err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	return func() {
		if now, err := readDevFile(path); err == nil && now.PID == os.Getpid() {
			_ = os.Remove(path) // a stale one is found out by who reads it
		}
	}, nil
}

func readDevFile(path string) (devFile, error) {
	var f devFile
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &f)
	}
	return f, err
}

// findDev returns the data folder of this user's running dev.
func findDev() (string, error) {
	path, err := devFilePath()
	if err != nil {
		return "", err
	}
	f, err := readDevFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoDev
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if _, _, err := embedded.Find(f.Dir); err != nil {
		return "", fmt.Errorf("%w (the last one, process %d, is gone: %w)", errNoDev, f.PID, err)
	}
	return f.Dir, nil
}
