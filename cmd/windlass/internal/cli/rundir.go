package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

var errNoDev = errors.New("no broker is named, and this user runs no \"windlass dev\"")

// devFile is what a running dev writes to devFileName.
type devFile struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"`
}

const devFileName = "dev.json"

// runDirs are the possible places of this user's private folder for files of running
// processes. Another user may have made the first one, in a shared temporary folder, so its
// owner and mode are checked each time.
func runDirs() []string {
	dirs := []string{filepath.Join(os.TempDir(), "windlass-"+strconv.Itoa(os.Getuid()))}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		dirs[0] = filepath.Join(runtime, "windlass")
	}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "windlass"))
	}
	return dirs
}

func checkRunDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("run folder %s: %w: it must be a folder of this user's with mode 0700", dir, fs.ErrPermission)
	}
	return nil
}

// runDir returns the first of runDirs that can be used, and makes it if need be.
func runDir() (string, error) {
	var errs []error
	for _, dir := range runDirs() {
		err := os.MkdirAll(filepath.Dir(dir), 0o700)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = checkRunDir(dir)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// announceDev lets commands without --broker find this dev, until withdraw.
func announceDev(dir string) (withdraw func(), err error) {
	run, err := runDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(run, devFileName)
	content, err := json.Marshal(devFile{PID: os.Getpid(), Dir: dir})
	if err != nil {
		return nil, err
	}
	temporary := path + "." + strconv.Itoa(os.Getpid())
	if err = os.WriteFile(temporary, content, 0o600); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	return func() {
		if now, err := readDevFile(path); err == nil && now.PID == os.Getpid() {
			_ = os.Remove(path) // findDev recognizes a stale file
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
	none := errNoDev
	for _, dir := range runDirs() {
		err := checkRunDir(dir)
		path := filepath.Join(dir, devFileName)
		var f devFile
		if err == nil {
			f, err = readDevFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // it is elsewhere, if there is one
		case errors.Is(err, fs.ErrPermission):
			none = fmt.Errorf("%w (%w)", none, err)
			continue
		case err != nil:
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if _, _, err := embedded.Find(f.Dir); err != nil {
			return "", fmt.Errorf("%w (the last one, process %d, is gone: %w)", errNoDev, f.PID, err)
		}
		return f.Dir, nil
	}
	return "", none
}
