package exectask

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Log files end in logSuffix and rotated ones in logSuffix+oldSuffix, so that no task's log
// has the name of another's rotated log.
const (
	logSuffix = ".log"
	oldSuffix = ".1"
	// nameMax leaves room for the suffixes: a file name has at most 255 bytes.
	nameMax = 200
)

// LogPath returns the path of a task's log in dir, different for every ID: letters, digits,
// '-', '_' and inner dots stay, any other byte becomes %XX, and a hash of the ID replaces
// the end of a long name. The rotated log has ".1" after it.
func LogPath(dir, taskID string) string {
	var b strings.Builder
	for i, c := range []byte(taskID) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := cmp.Or(b.String(), "%")
	if len(name) > nameMax {
		sum := sha256.Sum256([]byte(taskID))
		// No whole name has a '~'.
		name = name[:nameMax-33] + "~" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(dir, name+logSuffix)
}

// prepareLogDir makes the folder of the logs, and returns its path without links. It refuses one that
// other users may write to, or, unless those above are trusted, put another in the place of: the
// output of a task, which may be theirs, would go where they want.
func prepareLogDir(dir string, trustAbove bool) (real string, err error) {
	if dir == "" {
		return "", nil
	}
	if !filepath.IsAbs(dir) {
		return "", refuse("LogDir", quote(dir), "must be absolute")
	}
	var info os.FileInfo
	if err = os.MkdirAll(dir, 0o700); err == nil {
		real, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		info, err = os.Stat(real)
	}
	if err != nil {
		return "", fmt.Errorf("LogDir: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return "", refuse("LogDir", quote(real), fmt.Sprintf("must be a folder that only its owner writes to, mode is %s", info.Mode()))
	}
	// Only root gets here with a folder of another user.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return "", refuse("LogDir", quote(real), fmt.Sprintf("must be owned by user %d, its owner is %d", os.Geteuid(), stat.Uid))
	}
	if err := onlyOurs(real); err != nil && !trustAbove {
		return "", refuse("LogDir", quote(real), err.Error())
	}
	probe, err := os.CreateTemp(real, ".probe-*")
	if err != nil {
		return "", fmt.Errorf("LogDir: %w", err)
	}
	probe.Close()
	return real, os.Remove(probe.Name())
}
