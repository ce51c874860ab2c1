package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/session"
)

func TestKeptOutput_OnlyAllOfItIsAResult(t *testing.T) {
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
			_, _ = k.Write([]byte(b))
		}
		content, err := k.json()
		if got := fmt.Sprint(string(content), " ", err); got != c.want {
			t.Errorf("of %q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestStreams_WhatIsKeptIsPassedOnToo(t *testing.T) {
	var out, errs bytes.Buffer
	s, err := (&supervised{out: &out, err: &errs}).openStreams(true)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(s.files[1], `{"a":1}`)
	fmt.Fprint(s.files[2], "trouble")
	s.close()
	content, err := s.output.json()
	if got := fmt.Sprint(string(content), err, out.String(), errs.String()); got != `{"a":1}<nil>{"a":1}trouble` {
		t.Error(got)
	}
}

func TestStreams_WhatNobodyTakesIsNoResult(t *testing.T) {
	reader, writer := io.Pipe()
	s, err := (&supervised{out: writer, err: io.Discard}).openStreams(true)
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	fmt.Fprint(s.files[1], `1`)
	s.close()
	if _, err := s.output.json(); err == nil {
		t.Error("what could not be passed on is a result")
	}
}

func TestExitCode_OfAJobThatWasTakenAway(t *testing.T) {
	for want, errs := range map[int][]error{
		exitConflict:    {windlass.ErrLost, session.ErrExpired, windlass.ErrReleased, windlass.ErrCommanded, windlass.ErrKilled, windlass.ErrDeleted},
		exitUnavailable: {session.ErrDeadline},
	} {
		for _, err := range errs {
			if got := exitCode(takenError{fmt.Errorf("task: %w", err)}); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
	if got := exitCode(fmt.Errorf("claim: %w", windlass.ErrLost)); got != exitConflict {
		t.Errorf("a claim that was lost: %d", got)
	}
}
