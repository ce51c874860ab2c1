package exectask

import (
	"os"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

func TestParseStatTrustsNoName(t *testing.T) {
	p, err := parseStat([]byte("42 (a) Z 1 (b) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n"))
	must(t, err)
	want := proc{pid: 42, ppid: 7, pgrp: 42, sid: 40, start: 12345}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	for _, bad := range []string{"", "1", "1 (a", "1 (a) S 2 3", "x (a) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v", bad, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("1 ()) S 0 0 0"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := parseStat(raw); err == nil && p.pid < 0 {
			t.Fatalf("%q: %+v", raw, p)
		}
	})
}

func TestSignalSparesAnotherProcessWithTheSameNumber(t *testing.T) {
	p, err := readStat(os.Getpid())
	must(t, err)
	p.start--
	if err := p.signal(9); err == nil {
		t.Fatal("signalled") // not reached: this process would be dead
	}
}

// TestARunDoesNotEndByAWalkThatMetTheDead: such a process may have left a child
// behind that the walk could not list any more.
func TestARunDoesNotEndByAWalkThatMetTheDead(t *testing.T) {
	const nobody = 1<<22 + 1 // above every process number
	for _, owner := range []string{"r", ""} {
		pipe, other, err := os.Pipe()
		must(t, err)
		defer pipe.Close()
		defer other.Close()
		r := &run{id: "r", pid: nobody, over: true, overAt: 1, ending: true, output: &output{pipe: pipe}}
		l := &loop{leaders: newLeaders(), self: identity(), runs: map[string]*run{"r": r}}
		dead := proc{pid: nobody + 1, ppid: l.self.pid, pgrp: nobody + 1, zombie: true, owner: owner}
		l.scanned(scanned{number: 2, procs: []proc{dead}})
		if r.gone || !l.walk.wanted {
			t.Errorf("owner %q: gone=%t wanted=%t", owner, r.gone, l.walk.wanted)
		}
		l.scanned(scanned{number: 3})
		if !r.gone {
			t.Errorf("owner %q: not gone after a walk that met nobody", owner)
		}
	}
}

// The supervisor, or the whole machine, may have been stopped while it walked. The next walk,
// which finds that the runs are over, must not wait for a multiple of that.
func TestAWalkThatWasInterruptedDelaysTheNextOneByThePauseAtMost(t *testing.T) {
	l := &loop{leaders: newLeaders(), self: identity(), runs: map[string]*run{}}
	for _, took := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		began := clock.Boot()
		l.scanned(scanned{number: 2, took: took})
		if most := clock.Boot() + scanPauseMax; l.walk.after > most || l.walk.soon > most || l.walk.after < began {
			t.Errorf("after a walk of %v the next one is due in %v", took, l.walk.after-began)
		}
	}
}
