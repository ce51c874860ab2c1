package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/session"
)

func TestKeptOutput_MustBeCompleteJSON(t *testing.T) {
	for _, c := range []struct {
		text  string
		whole bool
		want  string
	}{
		{" [1,2]\n", true, "[1,2] <nil>"},
		{"12345678", true, "12345678 <nil>"},
		{"123456789", true, " it has more than 8 bytes"},
		{"1        2", true, " it has more than 8 bytes"},
		{"12", false, " it could not be read to its end"},
		{"\"\xff\"", true, " it is not valid UTF-8"},
		{"{", true, " it is not JSON"},
		{"", true, " it is not JSON"},
	} {
		k := keptOutput{max: 8, whole: c.whole}
		for b := range strings.SplitSeq(c.text, "") {
			k.add([]byte(b))
		}
		content, err := k.json()
		if got := fmt.Sprint(string(content), " ", err); got != c.want {
			t.Errorf("of %q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestRelay_DoesNotWaitForAReaderAtTheEnd(t *testing.T) {
	reader, writer := io.Pipe()
	a := &app{err: io.Discard}
	s := &streams{over: make(chan struct{}), output: keptOutput{max: 1 << 20}}
	to := a.newRelay("out", writer)
	close(s.over)
	const size = 5 * relayBytesMax
	if err := s.copy(to, &s.output, io.LimitReader(zeros{}, size)); err != nil || len(s.output.kept) != size {
		t.Errorf("%d bytes of %d were kept: %v", len(s.output.kept), size, err)
	}
	if err := s.copy(to, nil, zeros{}); err == nil {
		t.Error("what has no end was read to its end")
	}
	_ = reader.Close() // and with it the goroutine that writes
	if err := to.flush(t.Context()); err != nil || !to.broken {
		t.Errorf("broken %v, %v", to.broken, err)
	}
	to.put([]byte("dropped"))
	if len(to.queue) > 0 {
		t.Error("something is queued for a writer that has failed")
	}
}

// zeros has no end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestExitCode_OfALostJob(t *testing.T) {
	taken := func(cause error) error { return takenError{fmt.Errorf("task: %w", cause)} }
	for err, want := range map[error]int{
		taken(windlass.ErrLost): exitConflict, taken(session.ErrExpired): exitConflict, taken(windlass.ErrReleased): exitConflict,
		taken(windlass.ErrCommanded): exitConflict, taken(windlass.ErrKilled): exitConflict, taken(windlass.ErrDeleted): exitConflict,
		taken(session.ErrDeadline):                       exitUnavailable,
		fmt.Errorf("claim: %w", windlass.ErrLost):        exitConflict,
		fmt.Errorf("command: %w", broker.ErrUnavailable): exitUnavailable,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
