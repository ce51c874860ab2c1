package embedded

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// FolderError reports that a folder must not hold data, because another user could
// change or replace its contents.
type FolderError struct {
	// Path is the refused folder: the data folder or its parent.
	Path string
	// Problem says what is wrong and Hint how to fix it.
	Problem string
	// Hint is a command or advice.
	Hint string
}

// Error implements error.
func (e *FolderError) Error() string {
	return fmt.Sprintf("folder %s is %s, so that its content could be forged; %s", e.Path, e.Problem, e.Hint)
}

// prepareFolder creates a data folder if it is missing, and refuses one that others could
// change. It returns its real path.
func prepareFolder(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return checkedFolder(dir)
}

// checkedFolder returns the real path of a folder, and checks it and its parent.
func checkedFolder(dir string) (string, error) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("data folder: %w", &fs.PathError{Op: "open", Path: real, Err: errors.New("not a folder")})
	}
	if err := checkWritable(real, info); err != nil {
		return "", err
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() {
		return "", &FolderError{real, fmt.Sprintf("owned by user %d and not by %d", uid, os.Geteuid()), "use a folder of your own"}
	}
	return real, checkParent(filepath.Dir(real))
}

// checkParent checks the parent folder: a user who may write there can replace our folder,
// unless the parent is sticky, as /tmp is.
func checkParent(parent string) error {
	info, err := os.Stat(parent)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if uid, known := ownerOf(info); known && uid != os.Geteuid() && uid != 0 {
		return &FolderError{parent, fmt.Sprintf("owned by user %d", uid), "use a folder inside one of your own"}
	}
	if info.Mode()&os.ModeSticky != 0 {
		return nil
	}
	return checkWritable(parent, info)
}

func checkWritable(path string, info os.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return &FolderError{path, fmt.Sprintf("writable by others (mode %04o)", mode), "chmod go-w " + path}
	}
	return nil
}

// socketBytesMax limits the path of a socket. Linux allows 107 bytes and macOS 103.
const socketBytesMax = 100

// socketPath returns the path of the socket of a data folder: in the folder if it is private
// and the path is short enough, or else in a private temporary folder, named by a digest of
// the data folder. temporary is that folder if it was created for this socket alone.
func socketPath(dir string) (path, temporary string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", "", fmt.Errorf("data folder: %w", err)
	}
	path = filepath.Join(dir, "windlass.sock")
	if len(path) <= socketBytesMax && info.Mode().Perm()&0o077 == 0 {
		return path, "", nil
	}
	private, shared, err := privateFolder()
	if err != nil {
		return "", "", err
	}
	if !shared {
		temporary = private
	}
	digest := sha256.Sum256([]byte(dir))
	path = filepath.Join(private, fmt.Sprintf("%x.sock", digest[:8]))
	if len(path) > socketBytesMax {
		return "", temporary, fmt.Errorf("socket: the path %s has %d bytes, the limit is %d; set TMPDIR to a shorter folder", path, len(path), socketBytesMax)
	}
	return path, temporary, nil
}

// privateFolder returns a folder for sockets that nobody else can enter. If another user has
// created a folder or link of its name, it creates one with a random name, so that nobody can
// prevent a start. shared is true if all servers of this user use the folder.
func privateFolder() (path string, shared bool, err error) {
	path = filepath.Join(os.TempDir(), "windlass-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, fmt.Errorf("socket: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", false, fmt.Errorf("socket: %w", err)
	}
	uid, known := ownerOf(info)
	if info.IsDir() && info.Mode().Perm()&0o077 == 0 && (!known || uid == os.Geteuid()) {
		return path, true, nil
	}
	if path, err = os.MkdirTemp("", filepath.Base(path)+"-"); err != nil {
		return "", false, fmt.Errorf("socket: %w", err)
	}
	return path, false, nil
}
