package exectask

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFramesKeepBytesThatAreNotText(t *testing.T) {
	m := message{Kind: kindStart, Run: "r", Start: &startOrder{
		Path: []byte("/\xff"), Argv: toBytes([]string{"a\xfe", ""}), Env: toBytes([]string{"A=\xfd"}), Grace: time.Second,
	}}
	frame, err := encode(m)
	must(t, err)
	got, err := decode(bytes.NewReader(frame))
	must(t, err)
	if d := cmp.Diff(m, got); d != "" {
		t.Error(d)
	}
}

func TestTheLargestCommandFitsAFrame(t *testing.T) {
	env := strings.Repeat("e", ArgMax)
	m := message{Kind: kindStart, Start: &startOrder{
		Path: make([]byte, DirMax), Dir: make([]byte, DirMax), Log: make([]byte, DirMax),
		Argv: [][]byte{make([]byte, CommandMax)},
		Env:  append(toBytes([]string{env, env, env, env, env, env}), make([]byte, EnvBytesMax)), // each inherited one at its largest
	}}
	_, err := encode(m)
	must(t, err)
}

func TestDecodeRefusesWhatIsTooLong(t *testing.T) {
	_, err := decode(bytes.NewReader([]byte{0xff, 0, 0, 0}))
	contains(t, err, "at most 2097152")
	_, err = decode(bytes.NewReader([]byte{0, 0, 0, 9, '{'}))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := decode(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

func TestOutboxKeepsOrderAndOnlyTheLastOfSeveralDeadlines(t *testing.T) {
	o := newOutbox()
	for _, m := range []message{
		{Kind: kindDeadline, Until: &deadline{Stop: 1}}, {Kind: kindDeadline, Until: &deadline{Stop: 2}}, {Kind: kindStart, Run: "a"},
		{Kind: kindDeadline, Until: &deadline{Stop: 3}}, {Kind: kindDeadline, Until: &deadline{Stop: 4}}, {Kind: kindPing},
	} {
		o.put(m)
	}
	o.close()
	o.put(message{Kind: kindPing}) // too late
	var stream bytes.Buffer
	must(t, o.drain(&stream))
	var got []message
	for {
		m, err := decode(&stream)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		got = append(got, m)
	}
	want := []message{{Kind: kindDeadline, Until: &deadline{Stop: 2}}, {Kind: kindStart, Run: "a"}, {Kind: kindDeadline, Until: &deadline{Stop: 4}}, {Kind: kindPing}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzDecode(f *testing.F) {
	frame, err := encode(message{Kind: kindExited, Run: "r", Exit: &Result{Code: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decode(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if _, err := encode(m); err != nil {
			t.Fatal(err)
		}
	})
}
