package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

var errNoDev = errors.New("no broker is named, and this user runs no \"windlass dev\"")

// devFile is what a running dev writes to a file of its own, whose name devFiles matches.
type devFile struct {
	PID     int       `json:"pid"`
	Dir     string    `json:"dir"`
	Started time.Time `json:"started"`
}

const devFiles = "dev-*.json"

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

// announceDev lets commands without --broker find this dev, until withdraw. Another that
// runs already is found before it.
func announceDev(dir string) (withdraw func(), err error) {
	run, err := runDir()
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(devFile{PID: os.Getpid(), Dir: dir, Started: time.Now()})
	if err != nil {
		return nil, err
	}
	eachDev(run, func(path string, _ devFile, err error) {
		if errors.Is(err, embedded.ErrNotRunning) || errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path) // it was killed
		}
	})
	path := filepath.Join(run, strings.Replace(devFiles, "*", strconv.Itoa(os.Getpid()), 1))
	temporary := path + ".new"
	if err = os.WriteFile(temporary, content, 0o600); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // findDev recognizes a stale file
}

// findDev returns the data folder of this user's running dev, the first of several.
func findDev() (string, error) {
	none := errNoDev
	var found []devFile
	for _, dir := range runDirs() {
		err := checkRunDir(dir)
		if errors.Is(err, fs.ErrPermission) {
			none = fmt.Errorf("%w (%w)", none, err)
		}
		if err != nil {
			continue // it is elsewhere, if there is one
		}
		eachDev(dir, func(path string, f devFile, err error) {
			switch {
			case err == nil:
				found = append(found, f)
			case f.PID != 0:
				none = fmt.Errorf("%w (the last one, process %d, is gone: %w)", errNoDev, f.PID, err)
			default:
				none = fmt.Errorf("%w (%s: %w)", errNoDev, path, err)
			}
		})
	}
	if len(found) == 0 {
		return "", none
	}
	return slices.MinFunc(found, func(a, b devFile) int { return a.Started.Compare(b.Started) }).Dir, nil
}

// eachDev goes through those that have announced themselves in a folder, with why one cannot
// be reached.
func eachDev(dir string, see func(path string, f devFile, err error)) {
	paths, _ := filepath.Glob(filepath.Join(dir, devFiles)) // the pattern is well formed
	for _, path := range paths {
		var f devFile
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		if err == nil {
			err = json.Unmarshal(content, &f)
		}
		if err == nil {
			_, _, err = embedded.Find(f.Dir)
		}
		see(path, f, err)
	}
}
