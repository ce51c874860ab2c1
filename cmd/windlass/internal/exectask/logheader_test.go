package exectask

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// outputs are what the runs of a task print, one after the other.
var outputs = [][]string{
	{"no newline"},
	{"line\n"},
	{},
	{"\n", "\n"},
	{"--- windlass at=0\n", "half a header:\n--- windlass"},
	{strings.Repeat("x", LogMin), strings.Repeat("y", LogMin/2)},
	{strings.Repeat("z", 1000) + "\n", "prompt: "},
}

// logged writes a log and calls look after each write. It returns what was printed.
func logged(t *testing.T, dir string, most int64, look func()) string {
	t.Helper()
	var printed strings.Builder
	for i, run := range outputs {
		l, err := openLog(LogPath(dir, "t"), most, fmt.Sprintf("--- windlass run=%d", i))
		must(t, err)
		look()
		for _, text := range run {
			must(t, l.write([]byte(text)))
			printed.WriteString(text)
			look()
		}
		must(t, l.file.Close())
	}
	return printed.String()
}

func TestHeadersStandOnLinesOfTheirOwnAndCanBeLeftOut(t *testing.T) {
	dir := t.TempDir()
	want := logged(t, dir, LogDefault, func() {})
	var all, printed strings.Builder
	must(t, Tail(t.Context(), &all, dir, "t", TailConfig{Lines: -1}))
	must(t, Tail(t.Context(), &printed, dir, "t", TailConfig{Lines: -1, Printed: true}))
	if printed.String() != want {
		t.Errorf("printed %q\nwant %q", &printed, want)
	}
	for i := range outputs {
		if got := strings.Count("\n"+all.String(), fmt.Sprintf("\n--- windlass run=%d at=", i)); got != 1 {
			t.Errorf("run %d has %d headers on lines of their own", i, got)
		}
	}
	var last strings.Builder
	must(t, Tail(t.Context(), &last, dir, "t", TailConfig{Lines: 2, Printed: true}))
	if got := strings.ReplaceAll(last.String(), "z", ""); !strings.HasSuffix(got, "\nprompt: ") || strings.Count(got, "\n") != 1 {
		t.Errorf("the last two lines that were printed are %q", got)
	}
}

func TestALineLongerThanALogIsPrintedWhole(t *testing.T) {
	dir := t.TempDir()
	l, err := openLog(LogPath(dir, "t"), LogMin, headerStart+"long")
	must(t, err)
	for range 6 {
		must(t, l.write(bytes.Repeat([]byte("x"), 1000)))
	}
	must(t, l.write([]byte("end\n")))
	must(t, l.file.Close())
	var all, printed strings.Builder
	must(t, Tail(t.Context(), &all, dir, "t", TailConfig{Lines: -1}))
	must(t, Tail(t.Context(), &printed, dir, "t", TailConfig{Lines: -1, Printed: true}))
	if want := strings.Repeat("x", 6000) + "end\n"; printed.String() != want {
		t.Errorf("printed %d bytes, want %d: %q", printed.Len(), len(want), strings.Trim(printed.String(), "x"))
	}
	if !strings.Contains(all.String(), "x\n--- windlass long at=1 (continued 1) (newline added)\nx") {
		t.Errorf("the header is not on a line of its own: %q", strings.ReplaceAll(all.String(), "x", ""))
	}
}

func TestALineThatEndsInTheNextWriteIsNotCut(t *testing.T) {
	dir := t.TempDir()
	l, err := openLog(LogPath(dir, "t"), LogMin, headerStart+"line")
	must(t, err)
	for range 5 {
		must(t, l.write(bytes.Repeat([]byte("x"), 1000)))
		must(t, l.write([]byte("y\n")))
	}
	must(t, l.file.Close())
	var all strings.Builder
	must(t, Tail(t.Context(), &all, dir, "t", TailConfig{Lines: -1}))
	if got := strings.Count(all.String(), strings.Repeat("x", 1000)+"y\n"); got != 5 {
		t.Errorf("%d of 5 lines are whole", got)
	}
}

// TestHeadersAreLeftOutOfWhatIsFollowed looks at every state of the log that a reader can find.
func TestHeadersAreLeftOutOfWhatIsFollowed(t *testing.T) {
	for _, most := range []int64{LogMin, LogDefault} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			ctx, stop := context.WithCancel(t.Context())
			var got bytes.Buffer
			done := make(chan error)
			go func() {
				done <- Tail(ctx, &got, dir, "t", TailConfig{Lines: -1, Follow: true, Printed: true})
			}()
			synctest.Wait()
			want := logged(t, dir, most, func() { // two looks, so that nothing is held any more
				for range 2 {
					time.Sleep(followEvery)
				}
				synctest.Wait()
			})
			stop()
			must(t, <-done)
			if got.String() != want {
				t.Errorf("at most %d bytes: followed %q\nwant %q", most, &got, want)
			}
		})
	}
}

// TestHeadersAreLeftOutOfTheEndOfALog cuts the end of a log at every byte.
func TestHeadersAreLeftOutOfTheEndOfALog(t *testing.T) {
	dir := t.TempDir()
	printed := logged(t, dir, LogMin, func() {})
	whole, err := logEnd(dir, "t", 4*LogMin)
	must(t, err)
	for most := range len(whole.text) {
		p, err := logEnd(dir, "t", most)
		must(t, err)
		if got := p.end.Printed(string(p.text)); !strings.HasSuffix(printed, strings.TrimPrefix(got, "\n")) {
			t.Fatalf("the last %d bytes: %q was never printed", most, got)
		}
		if p.end != whole.end {
			t.Fatalf("the last %d bytes: end %+v, want %+v", most, p.end, whole.end)
		}
	}
}

func FuzzHeaderFilter(f *testing.F) {
	f.Add("a", "b\n", 3)
	f.Add("--- windlass x at=0", "\n--- windlass ", 1)
	f.Fuzz(func(t *testing.T, one, two string, size int) {
		var file []byte
		for i, text := range []string{one, two} {
			open := len(file) > 0 && file[len(file)-1] != '\n'
			file = append(file, headerLine(fmt.Sprintf("--- windlass run=%d", i), "", int64(len(file)), open)...)
			if strings.Contains(text, headerAt) {
				t.Skip("it may forge a header")
			}
			file = append(file, text...)
		}
		var out bytes.Buffer
		filter := headerFilter{out: &out}
		for part := range slices.Chunk(file, 1+int(uint(size)%64)) {
			_, err := filter.Write(part)
			must(t, err)
		}
		must(t, filter.flush())
		if out.String() != one+two {
			t.Errorf("got %q, want %q", &out, one+two)
		}
	})
}

// BenchmarkWithoutHeaders reads logs that are full of something: text, and what begins like a
// header. The second must cost a multiple of the first that does not grow with the size.
func BenchmarkWithoutHeaders(b *testing.B) {
	for name, text := range map[string]string{"text": "some output; ", "beginnings": headerStart} {
		for _, size := range []int{1 << 18, 1 << 20} {
			log := bytes.Repeat([]byte(text), size/len(text))
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(log)))
				for b.Loop() {
					if got := withoutHeaders(log, 0); len(got) != len(log) {
						b.Fatalf("%d of %d bytes are left", len(got), len(log))
					}
				}
			})
		}
	}
}
