package exectask

import (
	"os"
	"syscall"
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
	p, err = parseStat([]byte("9 (a) S 7 9 9 0 -1 4194304 98 97 96 95 100 20 3 1 20 0 1 0 5 3133440 16 1844 1 1\n"))
	must(t, err)
	want = proc{pid: 9, ppid: 7, pgrp: 9, sid: 9, start: 5, cpu: 1240 * time.Millisecond, memory: 16 * pageSize}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	for _, bad := range []string{"", "1", "1 (a", "1 (a) S 2 3", "42 (a) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0", "x (a) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"} {
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

// What still lives when a program has exited is counted once each, and nothing that a stopped
// run leaves.
func TestProcessesThatOutliveTheirProgramAreCounted(t *testing.T) {
	const nobody = 1<<22 + 1 // above every process number
	for _, c := range []struct {
		why  Why
		runs int
		want int
	}{{WhyExited, 1, 3}, {WhyExited, 2, 2}, {WhyStopped, 1, 0}, {WhyDeadline, 1, 0}} {
		r := &run{id: "r", pid: nobody, over: true, overAt: 1, ending: true, why: c.why, termed: map[proc]bool{}}
		l := &loop{leaders: newLeaders(), self: identity(), runs: map[string]*run{"r": r}}
		if c.runs > 1 {
			l.runs["other"] = &run{id: "other", pid: nobody + 9, over: true, overAt: 99, ending: true, why: WhyExited, termed: map[proc]bool{}}
		}
		member := proc{pid: nobody + 1, ppid: l.self.pid, pgrp: nobody, owner: "r"}
		marked := proc{pid: nobody + 2, ppid: l.self.pid, pgrp: nobody + 2, marker: "r"}
		stray := proc{pid: nobody + 3, ppid: l.self.pid, pgrp: nobody + 3}
		dead := proc{pid: nobody + 4, ppid: nobody + 1, pgrp: nobody, owner: "r", zombie: true}
		others := proc{pid: nobody + 5, ppid: nobody + 9, pgrp: nobody + 9, owner: "other"}
		all := []proc{member, marked, stray, dead, others}
		l.scanned(scanned{number: 1, procs: append(all, proc{pid: nobody + 6, ppid: nobody, owner: "r"})}) // begun before the end
		l.scanned(scanned{number: 2, procs: all})
		l.scanned(scanned{number: 3, procs: all[1:]})
		if got := len(r.outlived); got != c.want {
			t.Errorf("%s of %d runs: %d are counted, want %d", c.why, c.runs, got, c.want)
		}
	}
}

func TestAProcessWasEndedByTheSignalsOfARun(t *testing.T) {
	for status, want := range map[syscall.WaitStatus]bool{0: false, 1 << 8: false, 15: true, 9: true, 11: false, 13: false, lostStatus: false} {
		if got := wasEnded(status); got != want {
			t.Errorf("status %#x: %v", status, got)
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

// What a run uses is that of its program, of those that it has started, wherever they have
// gone to, and of those that have ended.
func TestUsage_IsOfAllProcessesOfTheRunAndOfNoOther(t *testing.T) {
	const nobody = 1<<22 + 1                   // above every process number
	started := func(id string, pid int) *run { // over, as pid is no child of this process, but not gone
		return &run{id: id, pid: pid, over: true, overAt: 99, ending: true, termed: map[proc]bool{}}
	}
	r, other := started("r", nobody), started("other", nobody+1)
	l := &loop{leaders: newLeaders(), out: newOutbox(), self: identity(), runs: map[string]*run{"r": r, "other": other}}
	l.ask(r)
	l.scanned(scanned{number: 0, at: time.Second, procs: nil})
	if batch, _ := l.out.take(); len(batch) > 0 || !l.walk.wanted {
		t.Errorf("a walk that began before is the answer: %+v", batch)
	}
	procs := []proc{
		{pid: nobody, ppid: l.self.pid, owner: "r", cpu: time.Second, memory: 1},
		{pid: nobody + 1, ppid: l.self.pid, owner: "other", cpu: time.Hour, memory: 1 << 30},
		{pid: nobody + 2, ppid: nobody, owner: "r", cpu: 2 * time.Second, memory: 20},
		{pid: nobody + 3, ppid: l.self.pid, marker: "r", cpu: 3 * time.Second, memory: 300},
		{pid: nobody + 4, ppid: nobody, owner: "r", zombie: true, cpu: 4 * time.Second},
		{pid: nobody + 5, ppid: l.self.pid, owner: "r", zombie: true, cpu: 5 * time.Second},
		{pid: nobody + 6, ppid: l.self.pid, cpu: time.Hour, memory: 1 << 30}, // of one of both
	}
	l.scanned(scanned{number: 1, at: time.Minute, procs: procs})
	l.scanned(scanned{number: 2, at: time.Hour, procs: procs[:1]}) // nobody has asked again
	l.ask(r)
	l.scanned(scanned{number: 3, at: time.Hour, procs: procs[:1]})
	delete(l.runs, "other")
	l.ask(r)
	l.scanned(scanned{number: 4, at: 2 * time.Hour, procs: procs[6:]})
	want := []sample{
		{At: time.Minute, CPU: 15 * time.Second, Memory: 321, Processes: 3},
		{At: time.Hour, CPU: 6 * time.Second, Memory: 1, Processes: 1}, // with the one that this process has reaped
		{At: 2 * time.Hour, CPU: time.Hour + 5*time.Second, Memory: 1 << 30, Processes: 1},
	}
	batch, _ := l.out.take()
	if len(batch) != len(want) {
		t.Fatalf("%d answers: %+v", len(batch), batch)
	}
	for i, m := range batch {
		if m.Kind != kindSample || m.Run != "r" || *m.Sample != want[i] {
			t.Errorf("answer %d is %s of %s, %+v, want %+v", i, m.Kind, m.Run, *m.Sample, want[i])
		}
	}
}
