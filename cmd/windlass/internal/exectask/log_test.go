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
	"unicode/utf8"
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
		l, err := openLog(LogPath(dir, "t"), LogMin, fmt.Sprintf("--- windlass run=%d", i))
		must(t, err)
		for range 3 {
			must(t, l.write(bytes.Repeat([]byte{'a' + byte(i)}, 1000)))
		}
		must(t, l.file.Close())
	}
	var all strings.Builder
	must(t, Tail(t.Context(), &all, dir, "t", TailConfig{Lines: -1}))
	text := all.String()
	for _, want := range []string{"\n--- windlass run=1 at=1 (continued 1) (newline added)\n", "\n--- windlass run=2 at=", " (newline added)\nccc"} {
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
	if err := Tail(t.Context(), io.Discard, t.TempDir(), "t", TailConfig{Lines: 3}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTailCutsLines(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(LogPath(dir, "t")+oldSuffix, []byte("1\n2\n"), 0o600))
	must(t, os.WriteFile(LogPath(dir, "t"), []byte("3\n4\nrest"), 0o600))
	for n, want := range map[int]string{0: "", 1: "rest", 2: "4\nrest", 4: "2\n3\n4\nrest", 9: "1\n2\n3\n4\nrest", -1: "1\n2\n3\n4\nrest"} {
		var got bytes.Buffer
		must(t, Tail(t.Context(), &got, dir, "t", TailConfig{Lines: n}))
		if got.String() != want {
			t.Errorf("%d lines: %q, want %q", n, &got, want)
		}
	}
}

func TestLogEndHasTheLastBytesOfBothFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(LogPath(dir, "t")+oldSuffix, []byte("1\n34"), 0o600))
	must(t, os.WriteFile(LogPath(dir, "t"), []byte("5\n7"), 0o600))
	text := func(most int) (string, LogEnd) {
		p, err := logEnd(dir, "t", most)
		must(t, err)
		return string(p.text) + map[bool]string{true: " and more"}[p.cut], p.end
	}
	for most, want := range map[int]string{0: " and more", 2: "\n7 and more", 3: "5\n7 and more", 5: "345\n7 and more", 7: "1\n345\n7", 100: "1\n345\n7"} {
		if got, end := text(most); got != want || end.Bytes != 3 || end.RotatedBytes != 4 || end.File == end.Rotated {
			t.Errorf("%d bytes: %q, end %+v, want %q", most, got, end, want)
		}
	}
	must(t, os.Remove(LogPath(dir, "t")))
	if got, end := text(3); got != "\n34 and more" || end.Bytes != 4 || end.Rotated != "" {
		t.Errorf("during a rotation: %q, %+v", got, end)
	}
	if p, err := logEnd(dir, "other", 3); len(p.text) > 0 || p.cut || p.end != (LogEnd{}) || err != nil {
		t.Errorf("without a log: %+v, %v", p, err)
	}
	if p, err := logEnd("", "log_test.go", 3); len(p.text) > 0 || p.end != (LogEnd{}) || err != nil {
		t.Errorf("without logs: %+v, %v", p, err)
	}
}

// TestLogEnd_SinceJoinsLooks: however a log grows and is rotated, what is new since a look is
// as many bytes as have been written, unless it has been rotated twice.
func TestLogEnd_SinceJoinsLooks(t *testing.T) {
	dir := t.TempDir()
	path := LogPath(dir, "t")
	look := func() LogEnd {
		p, err := logEnd(dir, "t", 0)
		must(t, err)
		return p.end
	}
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, errors.Join(err, f.Close()))
	}
	var looks []LogEnd
	written := []int64{0}
	for i, rotate := range []bool{false, false, true, false, true, false} {
		if rotate {
			must(t, os.Rename(path, path+oldSuffix))
		}
		text := strings.Repeat("x", i+1)
		if i == 0 || rotate {
			text = fmt.Sprintf("--- file %d\n", i)
		}
		add(text)
		looks, written = append(looks, look()), append(written, written[i]+int64(len(text)))
	}
	// Which file each look found in writing.
	files := []int{0, 0, 1, 1, 2, 2}
	for i, earlier := range looks {
		for j, later := range looks {
			n, known := later.Since(earlier)
			apart := files[max(i, j)] - files[min(i, j)]
			if known != (apart < 2) || known && n != written[j+1]-written[i+1] {
				t.Errorf("from look %d to %d: %d bytes, known: %v", i, j, n, known)
			}
		}
	}
	if _, known := (LogEnd{File: "elsewhere/1/1", Bytes: 1}).Since(looks[5]); known {
		t.Error("a log on another host is taken for this")
	}
}

func TestALookEndsWithAWholeCharacter(t *testing.T) {
	for text, want := range map[string]string{"": "", "aé": "aé", "a\xc3": "a", "a\xe2\x82": "a", "a\xf0\x9f\x98": "a", "a\xff": "a\xff", "\x82\x82\x82\x82": "\x82\x82\x82\x82"} {
		p := logPart{text: []byte(text), end: LogEnd{Bytes: int64(len(text))}}.whole()
		if string(p.text) != want || p.end.Bytes != int64(len(want)) {
			t.Errorf("%q: %q, end %d", text, p.text, p.end.Bytes)
		}
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("a\xffb\xc3")
	f.Add("é\ufffd\xe2\x82")
	f.Fuzz(func(t *testing.T, text string) {
		got := readable([]byte(text))
		if len(got) != len(text) || !utf8.ValidString(got) || utf8.ValidString(text) && got != text {
			t.Errorf("%q: %q", text, got)
		}
	})
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
	go func() { done <- Tail(ctx, followed, dir, "t", TailConfig{Lines: -1, Follow: true}) }()
	l, err := openLog(LogPath(dir, "t"), LogMin, headerStart)
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
	contains(t, prepared(dir), "LogDir", "only its owner writes to")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	contains(t, prepared(file), "LogDir")
	must(t, prepared(filepath.Join(t.TempDir(), "a", "b")))
}

func prepared(dir string) error {
	_, err := prepareLogDir(dir, false)
	return err
}

// Who may write to a folder above puts another one there, whoever owns the folder itself.
func TestLogFolderIsRefusedBelowOneOfOthers(t *testing.T) {
	open := t.TempDir()
	must(t, os.Chmod(open, 0o777))
	ours, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	below := filepath.Join(open, "a", "logs")
	contains(t, prepared(below), "LogDir", "may be written by others")
	must(t, os.Symlink(open, filepath.Join(ours, "link")))
	contains(t, prepared(filepath.Join(ours, "link", "a", "logs")), "LogDir", "may be written by others")
	if _, err := prepareLogDir(below, true); err != nil {
		t.Errorf("who is trusted is refused: %v", err)
	}
	// A link that others can change is not looked at again.
	must(t, os.Symlink(ours, filepath.Join(open, "link")))
	real, err := prepareLogDir(filepath.Join(open, "link", "logs"), false)
	if must(t, err); real != filepath.Join(ours, "logs") {
		t.Errorf("the logs are in %s", real)
	}
}

// A link in the place of a log leads to a file that is none.
func TestALinkInThePlaceOfALogIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	private := filepath.Join(dir, "private")
	must(t, os.WriteFile(private, []byte("key\n"), 0o600))
	must(t, os.Symlink(private, LogPath(dir, "task")))
	l := newRunLog(LogPath(dir, "task"), 1<<20, "run", gap{})
	if err := l.begin(); err == nil {
		t.Error("it was opened")
	}
	if err := l.write([]byte("output\n")); err == nil {
		t.Error("it was written to")
	}
	if content, err := os.ReadFile(private); err != nil || string(content) != "key\n" {
		t.Errorf("%q, %v", content, err)
	}
	if part, err := logEnd(dir, "task", 100); err == nil {
		t.Errorf("what it leads to is shown: %q", part.text)
	}
}

func TestTheLogFolderOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for whom alone it matters")
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	must(t, os.Chown(dir, 12345, -1))
	contains(t, prepared(dir), "LogDir", "owned by")
}
