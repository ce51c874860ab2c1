package exectask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLogPath(t *testing.T) {
	for id, want := range map[string]string{
		"task-1_a.b":  "task-1_a.b.log",
		"a|b c":       "a%7Cb%20c.log",
		"../etc":      "%2E.%2Fetc.log",
		"a.log":       "a.log.log",
		"é":           "%C3%A9.log",
		"50%":         "50%25.log",
		"~":           "%7E.log",
		"":            "%.log",
		"line\nbreak": "line%0Abreak.log",
	} {
		if got := LogPath("/d", id); got != "/d/"+want {
			t.Errorf("%q: %s, want /d/%s", id, got, want)
		}
	}
}

func TestLogPathsOfLongIDsFitAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for n := 150; n <= TaskMax; n++ {
		for _, letter := range []string{"a", "|"} {
			id := strings.Repeat(letter, n)
			path := LogPath("/d", id)
			if len(filepath.Base(path))+len(oldSuffix) > 255 {
				t.Errorf("%d × %s: name of %d bytes", n, letter, len(filepath.Base(path)))
			}
			if other, ok := seen[path]; ok {
				t.Errorf("%q and %q share %s", other, id, path)
			}
			seen[path] = id
		}
	}
}

func FuzzLogPath(f *testing.F) {
	f.Add("a", "b")
	f.Add("a|b", "a%7Cb")
	f.Fuzz(func(t *testing.T, a, b string) {
		p, q := LogPath("/d", a), LogPath("/d", b)
		if (a == b) != (p == q) {
			t.Fatalf("%q: %s, %q: %s", a, p, b, q)
		}
		if filepath.Dir(p) != "/d" || len(filepath.Base(p)) > 253 {
			t.Fatalf("%q: %s", a, p)
		}
	})
}

func TestLogKeepsRunsApartAndRotatesOnce(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		l, err := openLog(LogPath(dir, "t"), LogMin, fmt.Sprintf("--- run %d", i))
		must(t, err)
		for range 3 {
			must(t, l.write(bytes.Repeat([]byte{'a' + byte(i)}, 1000)))
		}
		must(t, l.file.Close())
	}
	var all strings.Builder
	must(t, Tail(t.Context(), &all, dir, "t", -1, false))
	text := all.String()
	for _, want := range []string{"--- run 1 (continued)\n", "--- run 2\nccc"} {
		if !strings.Contains(text, want) {
			t.Errorf("log lacks %q", want)
		}
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 2 || len(text) > 2*LogMin {
		t.Errorf("%d files of %d bytes", len(files), len(text))
	}
}

func TestTailOfATaskThatNeverRan(t *testing.T) {
	if err := Tail(t.Context(), io.Discard, t.TempDir(), "t", 3, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTailCutsLines(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(LogPath(dir, "t")+oldSuffix, []byte("1\n2\n"), 0o600))
	must(t, os.WriteFile(LogPath(dir, "t"), []byte("3\n4\nrest"), 0o600))
	for n, want := range map[int]string{0: "", 1: "rest", 2: "4\nrest", 4: "2\n3\n4\nrest", 9: "1\n2\n3\n4\nrest", -1: "1\n2\n3\n4\nrest"} {
		var got bytes.Buffer
		must(t, Tail(t.Context(), &got, dir, "t", n, false))
		if got.String() != want {
			t.Errorf("%d lines: %q, want %q", n, &got, want)
		}
	}
}

func TestLogEndHasTheLastBytesOfBothFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(LogPath(dir, "t")+oldSuffix, []byte("1234"), 0o600))
	must(t, os.WriteFile(LogPath(dir, "t"), []byte("567"), 0o600))
	for most, want := range map[int]string{2: "67 and more", 3: "567 and more", 5: "34567 and more", 7: "1234567", 100: "1234567"} {
		end, more, err := logEnd(dir, "t", most)
		if got := string(end) + map[bool]string{true: " and more"}[more]; err != nil || got != want {
			t.Errorf("%d bytes: %q, %v, want %q", most, got, err, want)
		}
	}
	must(t, os.Remove(LogPath(dir, "t")))
	if end, more, err := logEnd(dir, "t", 3); string(end) != "234" || !more || err != nil {
		t.Errorf("during a rotation: %q, %v, %v", end, more, err)
	}
	if end, more, err := logEnd(dir, "other", 3); len(end) > 0 || more || err != nil {
		t.Errorf("without a log: %q, %v, %v", end, more, err)
	}
}

func TestFollowSeesEveryByteAcrossARotation(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	followed, err := os.Create(filepath.Join(t.TempDir(), "followed"))
	must(t, err)
	defer followed.Close()
	got := func() string {
		text, err := os.ReadFile(followed.Name())
		must(t, err)
		return string(text)
	}
	done := make(chan error)
	// Begun before the task's first run.
	go func() { done <- Tail(ctx, followed, dir, "t", -1, true) }()
	l, err := openLog(LogPath(dir, "t"), LogMin, "---")
	must(t, err)
	for i := range 6 {
		line := strings.Repeat(fmt.Sprint(i), 1000) + "\n"
		must(t, l.write([]byte(line)))
		eventually(t, 5*time.Second, fmt.Sprintf("line %d is followed", i), func() bool { return strings.HasSuffix(got(), line) })
	}
	must(t, l.file.Close())
	cancel()
	must(t, <-done)
	if n := strings.Count(got(), "\n"); n != 8 {
		t.Errorf("%d lines, want 6 and 2 headers", n)
	}
}

func TestLogFolderMustBeTheOwnersAlone(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	contains(t, prepareLogDir(dir), "LogDir", "only its owner writes to")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	contains(t, prepareLogDir(file), "LogDir")
	must(t, prepareLogDir(filepath.Join(t.TempDir(), "a", "b")))
}

func TestTheLogFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for whom alone it matters")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	must(t, os.Chown(dir, 12345, -1))
	contains(t, prepareLogDir(dir), "LogDir", "owned by")
}
