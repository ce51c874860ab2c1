package embedded_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestANewFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s := start(t, withSocket(dir))
	for path, want := range map[string]os.FileMode{
		dir:                                 0o700 | os.ModeDir,
		filepath.Dir(dir):                   0o700 | os.ModeDir,
		filepath.Join(dir, "etcd"):          0o700 | os.ModeDir,
		filepath.Join(dir, "windlass.lock"): 0o600,
		s.Socket():                          0o600 | os.ModeSocket,
		filepath.Dir(s.Socket()):            0o700 | os.ModeDir,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestAFolderThatOthersCouldChangeIsRefused(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name      string
		path      string
		mode      os.FileMode
		ok        bool
		otherwise os.FileMode
	}{
		{"the folder is writable for all", dir, 0o777, false, 0o700},
		{"the folder is writable for the group", dir, 0o770, false, 0o700},
		{"the folder around is writable for all", parent, 0o777, false, 0o755},
		{"the folder around is like /tmp", parent, 0o777 | os.ModeSticky, true, 0o755},
		{"the folder is readable for all", dir, 0o755, true, 0o700},
	}
	for _, c := range cases {
		chmod(t, c.path, c.mode)
		s, err := embedded.Start(t.Context(), fast(dir))
		if c.ok {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if err := s.Close(); err != nil {
				t.Error(err)
			}
		} else if e, ok := errors.AsType[*embedded.FolderError](err); !ok || e.Path != c.path || !strings.Contains(err.Error(), "chmod go-w "+c.path) {
			t.Errorf("%s: %v", c.name, err)
		}
		chmod(t, c.path, c.otherwise)
	}
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a folder of another user")
	}
	dir := privateDir(t)
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(t.Context(), fast(dir))
	if err == nil || !strings.Contains(err.Error(), dir+" is owned by user 12345") {
		t.Errorf("%v", err)
	}
}

func TestAFileIsNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), fast(path)); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestASecondServerIsToldAtOnceWhoHasTheFolder(t *testing.T) {
	dir := t.TempDir()
	start(t, withSocket(dir))
	_, err := embedded.Start(t.Context(), fast(dir))
	locked, ok := errors.AsType[*embedded.LockedError](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	host, _ := os.Hostname()
	if locked.Holder.PID != os.Getpid() || locked.Holder.Host != host || time.Since(locked.Holder.StartedAt) > time.Minute {
		t.Errorf("%+v", locked.Holder)
	}
	if !strings.Contains(err.Error(), "--broker "+dir) {
		t.Errorf("%v", err)
	}
}

// TestWhatAKilledServerLeftIsTakenOver has a lock file that nobody holds, and a socket that
// nobody listens on.
func TestWhatAKilledServerLeftIsTakenOver(t *testing.T) {
	dir := privateDir(t)
	socket := filepath.Join(dir, "windlass.sock")
	left, err := json.Marshal(embedded.Holder{PID: 1, Host: "gone", Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{filepath.Join(dir, "windlass.lock"): left, socket: nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := embedded.Find(dir); !errors.Is(err, embedded.ErrNotRunning) {
		t.Errorf("find: %v", err)
	}
	s := start(t, withSocket(dir))
	if s.Socket() != socket {
		t.Errorf("the socket is %s", s.Socket())
	}
	mustPut(t, dial(t, dir), "/a")
}

func TestFindSaysWhyThereIsNoWay(t *testing.T) {
	dir := t.TempDir()
	find := func(want error) embedded.Holder {
		t.Helper()
		_, holder, err := embedded.Find(dir)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v; want %v", err, want)
		}
		return holder
	}
	find(embedded.ErrNotRunning)
	s := start(t, fast(dir))
	if holder := find(embedded.ErrNoSocket); holder.PID != os.Getpid() {
		t.Errorf("%+v", holder)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	find(embedded.ErrNotRunning)
	dir = filepath.Join(dir, "nowhere")
	find(fs.ErrNotExist)
}

func TestASocketGoesElsewhereWhenTheFolderIsTooDeepOrOpen(t *testing.T) {
	short, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	t.Setenv("TMPDIR", short)
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	open := filepath.Join(t.TempDir(), "open")
	for _, dir := range []string{deep, open} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	chmod(t, open, 0o755)
	for _, dir := range []string{deep, open} {
		s := start(t, withSocket(dir))
		if len(s.Socket()) > 100 || !strings.HasPrefix(s.Socket(), os.TempDir()) {
			t.Errorf("%s", s.Socket())
		}
		mustPut(t, dial(t, dir), "/a")
	}
	private := filepath.Dir(start(t, withSocket(filepath.Join(deep, "again"))).Socket())
	chmod(t, private, 0o777)
	// As if another user had created it first.
	s, err := embedded.Start(t.Context(), withSocket(filepath.Join(deep, "more")))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Dir(s.Socket())
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 || !strings.HasPrefix(own, private+"-") {
		t.Errorf("the socket is in %s, %v", own, err)
	}
	b := dial(t, filepath.Join(deep, "more"))
	mustPut(t, b, "/a")
	if err := errors.Join(b.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", own, err)
	}
}

func TestAServerInAFolderThatOthersCanChangeIsNotFound(t *testing.T) {
	s := start(t, withSocket(t.TempDir()))
	chmod(t, s.Dir(), 0o777)
	_, err := embedded.Dial(t.Context(), s.Dir())
	if _, ok := errors.AsType[*embedded.FolderError](err); !ok {
		t.Errorf("%v", err)
	}
}
