package exectask

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// openLog begins the log of a run.
func openLog(path string, max int64, header string) (*runLog, error) {
	l := newRunLog(path, max, header, gap{})
	return l, l.begin()
}

// disk is one with room for so many bytes.
type disk struct{ room int }

// write writes as much as there is room for.
func (d *disk) write(f *os.File, p []byte) (int, error) {
	n, err := f.Write(p[:min(len(p), d.room)])
	if d.room -= n; err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// logText returns a task's log as it is, and what was printed of it.
func logText(t *testing.T, dir string) (all, printed string) {
	t.Helper()
	var texts [2]strings.Builder
	must(t, Tail(t.Context(), &texts[0], dir, "t", TailConfig{Lines: -1}))
	must(t, Tail(t.Context(), &texts[1], dir, "t", TailConfig{Lines: -1, Printed: true}))
	return texts[0].String(), texts[1].String()
}

func TestALogThatHadNoRoomGoesOnAndSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := &disk{room: 1 << 20}
		l := newRunLog(LogPath(dir, "t"), LogDefault, headerStart+"run=0", gap{})
		l.put = d.write
		must(t, l.begin())
		must(t, l.write([]byte("first\n")))
		d.room = 4
		contains(t, l.write([]byte("second line\n")), "no space left")
		contains(t, l.write([]byte("third\n")), "no space left")
		d.room = 20 // for a part of the header
		time.Sleep(logRetry)
		contains(t, l.write([]byte("fourth\n")), "no space left")
		d.room = 1 << 20
		time.Sleep(logRetry)
		must(t, l.write([]byte("fifth\n")))
		if left := l.close(); left.cause != nil {
			t.Errorf("%+v is to be noted", left)
		}
		all, printed := logText(t, dir)
		if want := "first\nsecofifth\n"; printed != want {
			t.Errorf("printed %q, want %q", printed, want)
		}
		const note = "first\nseco\n--- windlass run=0 at=35 (21 bytes before this line are missing: no space left on device) (newline added)\nfifth\n"
		if !strings.HasSuffix(all, note) || strings.Count(all, headerStart) != 2 {
			t.Errorf("the log is %q, want it to end with %q", all, note)
		}
		if l.lacks.bytes != 21 || !errors.Is(l.lacks.cause, syscall.ENOSPC) {
			t.Errorf("%+v is missing, want 21 bytes", l.lacks)
		}
	})
}

func TestALogThatFailsIsTriedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		l := newRunLog(LogPath(t.TempDir(), "t"), LogDefault, headerStart, gap{})
		l.put = func(*os.File, []byte) (int, error) { tries++; return 0, syscall.EIO }
		_ = l.begin()
		for range 1000 {
			_ = l.write([]byte("x"))
			time.Sleep(logRetry / 100)
		}
		if tries > 12 || l.lacks.bytes != 1000 {
			t.Errorf("%d tries, %d bytes are missing", tries, l.lacks.bytes)
		}
		l.close()
	})
}

func TestALogWhoseFolderIsRemovedIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		must(t, prepared(dir))
		l, err := openLog(LogPath(dir, "t"), LogDefault, headerStart+"run=0")
		must(t, err)
		must(t, l.write([]byte("first\n")))
		must(t, os.RemoveAll(dir))
		must(t, l.write([]byte("second\n"))) // it has not looked yet
		time.Sleep(logLook)
		must(t, l.write([]byte("third\n")))
		l.close()
		all, printed := logText(t, dir)
		if want := "--- windlass run=0 at=0 (continued 1; 13 bytes before this line are missing: the file was removed)\nthird\n"; all != want || printed != "third\n" {
			t.Errorf("the log is %q, want %q", all, want)
		}
		info, err := os.Stat(dir)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("the folder's mode is %s", info.Mode())
		}
	})
}

func TestALogThatCannotBeRotatedDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(LogPath(dir, "t")+oldSuffix, "in the way"), 0o700))
		l, err := openLog(LogPath(dir, "t"), LogMin, headerStart)
		must(t, err)
		for range 100 {
			_ = l.write(make([]byte, 1000))
			time.Sleep(logRetry)
		}
		info, err := os.Stat(l.path)
		must(t, err)
		if info.Size() > LogMin {
			t.Errorf("it has %d bytes", info.Size())
		}
		must(t, os.RemoveAll(l.path+oldSuffix))
		must(t, l.write([]byte("end\n")))
		l.close()
		if all, _ := logText(t, dir); !strings.HasSuffix(all, " (96000 bytes before this line are missing: file exists) (newline added)\nend\n") {
			t.Errorf("the log ends with %q", all[max(0, len(all)-200):])
		}
	})
}

// A run that prints no more once there is room again leaves the note to its end, and one that
// ends before that to the next run.
func TestWhatIsMissingAtTheEndOfARunIsNoted(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	path, owed := LogPath(dir, "t"), &gaps{of: map[string]gap{}}
	run := func(i, room int, text string) {
		l := newRunLog(path, LogDefault, fmt.Sprintf("--- windlass run=%d", i), owed.take(path))
		l.put = d.write
		_ = l.begin()
		_ = l.write([]byte(text))
		d.room += room
		owed.keep(path, l.close())
	}
	run(0, 1000, "lost\n")
	d.room = 0
	run(1, 0, "again\n")
	run(2, 0, "and again\n")
	d.room = 1 << 20
	run(3, 0, "there\n")
	all, printed := logText(t, dir)
	const missing = " bytes before this line are missing: no space left on device)\n"
	if want := "--- windlass run=0 at=0 (5" + missing + "--- windlass run=3 at=88 (16" + missing + "there\n"; all != want || printed != "there\n" {
		t.Errorf("the log is %q, want %q", all, want)
	}
	if len(owed.of) > 0 {
		t.Errorf("%v is to be noted still", owed.of)
	}
}

// The end of the line with which a full file ends goes on in it, and is no longer in the one
// that is removed.
func TestWhatIsMissingIsOnlyWhatTheRemovedFileHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := openLog(LogPath(t.TempDir(), "t"), LogMin, headerStart)
		must(t, err)
		must(t, l.write(make([]byte, LogMin)))
		must(t, l.write([]byte("end\nfresh\n")))
		must(t, os.Remove(l.path))
		time.Sleep(logLook)
		must(t, l.write([]byte("new\n")))
		if l.close(); l.lacks.bytes != int64(len("fresh\n")) || l.lacks.cause != errLogRemoved {
			t.Errorf("%+v is missing, want what was written to the second file", l.lacks)
		}
	})
}

func TestWhatARunLacksHasItsOwnCause(t *testing.T) {
	l := newRunLog(LogPath(t.TempDir(), "t"), LogDefault, headerStart, gap{5, syscall.EIO})
	l.put = (&disk{}).write
	_ = l.begin()
	_ = l.write([]byte("lost\n"))
	if left := l.close(); !errors.Is(l.lacks.cause, syscall.ENOSPC) || l.lacks.bytes != 5 || left != (gap{10, syscall.EIO}) {
		t.Errorf("%+v is missing, and %+v is to be noted", l.lacks, left)
	}
}

func TestTheLatestGapsAreNoted(t *testing.T) {
	g := gaps{of: map[string]gap{}}
	for i := range RunsMax + 9 {
		g.keep(fmt.Sprint(i), gap{})
		want := gap{int64(i + 1), syscall.EIO}
		g.keep(fmt.Sprint(i), want)
		if len(g.of) > RunsMax {
			t.Fatalf("%d are kept", len(g.of))
		}
		if i < RunsMax {
			continue
		}
		if got := g.take(fmt.Sprint(i)); got != want {
			t.Errorf("log %d lacks %+v", i, got)
		}
		g.keep(fmt.Sprint(i), want)
	}
}

// A file that is removed is begun anew, which succeeds, and lacks what was written before.
func TestALogThatIsRemovedIsToldAndCounted(t *testing.T) {
	path := LogPath(t.TempDir(), "t")
	pipe, program, err := os.Pipe()
	must(t, err)
	var told []error
	o := &output{pipe: pipe, max: TailDefault, trouble: func(err error) { told = append(told, err) }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.copy(&startOrder{Log: []byte(path), LogMax: LogDefault, Header: headerStart}, &gaps{of: map[string]gap{}})
	}()
	_, err = program.WriteString("lost\n")
	must(t, err)
	eventually(t, time.Minute, "the output is in the log", func() bool {
		all, _ := os.ReadFile(path)
		return strings.HasSuffix(string(all), "lost\n")
	})
	must(t, os.Remove(path))
	must(t, program.Close())
	<-done
	var r Result
	o.fill(&r, true)
	if len(told) != 1 || told[0] != errLogRemoved || r.LogError != errLogRemoved.Error() || r.LogMissing != 5 {
		t.Errorf("told %v, and the result is that %d bytes are missing: %q", told, r.LogMissing, r.LogError)
	}
}

// A reason may be any text, and the note must still be a header, by which it is left out.
func TestAReasonCannotBreakAHeader(t *testing.T) {
	for _, reason := range []string{"at=7", "x at=7 y", "two\nlines", strings.Repeat("long ", 1000), "a (newline added)", ")"} {
		l := runLog{header: headerStart + "run=0", gap: gap{7, errors.New(reason)}}
		line := headerLine(l.header, l.note(), 30, true)
		if len(line) > headMax {
			t.Errorf("%d bytes", len(line))
		}
		if is, added := isHeader([]byte(strings.TrimSpace(string(line))), 31); !is || !added {
			t.Errorf("%q is none", line)
		}
	}
}
