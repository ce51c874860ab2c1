package exectask

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

func TestParseStatTrustsNoName(t *testing.T) {
	p, err := parseStat([]byte("42 (a) Z 1 (b) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 0 0 0 0 0 0 0\n"))
	must(t, err)
	want := proc{pid: 42, ppid: 7, pgrp: 42, sid: 40, start: 12345}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	p, err = parseStat([]byte("9 (a) S 7 9 9 0 -1 4194304 98 97 96 95 100 20 3 1 20 0 1 0 5 3133440 16 1844 1 1 2 3 4 0\n"))
	must(t, err)
	want = proc{pid: 9, ppid: 7, pgrp: 9, sid: 9, start: 5, cpu: 1240 * time.Millisecond, memory: 16 * pageSize}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	for text, dying := range map[string]bool{"4194304 ... 0": false, "4194308 ... 0": true, "4194304 ... 256": true, "4194304 ... 16384": false} {
		flags, signals, _ := strings.Cut(text, " ... ")
		p, err := parseStat([]byte("9 (a) S 7 9 9 0 -1 " + flags + " 98 97 96 95 100 20 3 1 20 0 1 0 5 3133440 16 1844 1 1 2 3 4 " + signals + " 0\n"))
		if must(t, err); p.dying != dying {
			t.Errorf("%s: dying is %v", text, p.dying)
		}
	}
	for _, bad := range []string{"", "1", "1 (a", "1 (a) S 2 3", "42 (a) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 0 0 0 0 0 0", "x (a) S 7 42 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 0 0 0 0 0 0 0"} {
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

// Processes that outlive their program are counted once each, unless they are dying, and not
// those of a stopped run.
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
		ended := proc{pid: nobody + 7, ppid: nobody, pgrp: nobody, owner: "r", dying: true}
		others := proc{pid: nobody + 5, ppid: nobody + 9, pgrp: nobody + 9, owner: "other"}
		all := []proc{member, marked, stray, dead, ended, others}
		l.scanned(scanned{number: 1, procs: append(all, proc{pid: nobody + 6, ppid: nobody, owner: "r"})}) // begun before the end
		l.scanned(scanned{number: 2, procs: all})
		l.scanned(scanned{number: 3, procs: all[1:]})
		if got := len(r.outlived); got != c.want {
			t.Errorf("%s of %d runs: %d are counted, want %d", c.why, c.runs, got, c.want)
		}
	}
}

// One that has died of SIGTERM cannot be counted any more, so it gets that afterwards.
func TestWhatAProgramLeavesIsCountedBeforeItGetsSIGTERM(t *testing.T) {
	const nobody = 1<<22 + 1 // above every process number, so that no process gets a signal
	for _, why := range []Why{WhyExited, WhyStopped} {
		r := &run{id: "r", order: &startOrder{Grace: time.Hour}, pid: nobody, termed: map[proc]bool{}, why: map[Why]Why{WhyStopped: WhyStopped}[why]}
		l := &loop{leaders: newLeaders(), self: identity(), runs: map[string]*run{"r": r}, until: deadline{Stop: never, Hard: never}}
		l.checkLeader(r) // has ended, as there is no such child
		if r.why != why || !r.ending || (r.countBy != 0) != (why == WhyExited) {
			t.Fatalf("%s: %+v", why, r)
		}
		if next, _ := l.next(clock.Boot()); next > tick {
			t.Errorf("%s: looked again in %s", why, next)
		}
		member := proc{pid: nobody + 1, ppid: l.self.pid, pgrp: nobody, owner: "r"}
		l.walk.begun = 1
		l.scanned(scanned{number: 0, procs: []proc{member}})
		if (r.countBy != 0) != (why == WhyExited) {
			t.Errorf("%s: SIGTERM is sent after a walk that began before the end", why)
		}
		if why == WhyExited {
			l.walk.busy = true
			if l.step(clock.Reading{Boot: r.countBy - 1}); r.countBy == 0 {
				t.Errorf("%s: SIGTERM is sent before a walk", why)
			}
		}
		l.scanned(scanned{number: 1, procs: []proc{member}})
		if want := map[Why]int{WhyExited: 1}[why]; r.countBy != 0 || len(r.outlived) != want {
			t.Errorf("%s: SIGTERM is to be sent at %s, %d are counted, want %d", why, r.countBy, len(r.outlived), want)
		}
	}
	pipe, other, err := os.Pipe()
	must(t, err)
	defer pipe.Close()
	defer other.Close()
	for name, then := range map[string]func(*loop, *run){
		"no walk":      func(l *loop, r *run) { l.step(clock.Reading{Boot: r.countBy}) },
		"told to stop": func(l *loop, r *run) { l.end(r, WhyStopped, time.Hour) },
		"nobody left":  func(l *loop, r *run) { l.scanned(scanned{number: 1}) }, // or it would be sent to a group that is another's by then
	} {
		r := &run{id: "r", order: &startOrder{Grace: time.Hour}, pid: nobody, termed: map[proc]bool{}, output: &output{pipe: pipe}}
		l := &loop{leaders: newLeaders(), self: identity(), runs: map[string]*run{"r": r}, walk: walk{busy: true}, until: deadline{Stop: never, Hard: never}}
		l.checkLeader(r)
		then(l, r)
		if r.countBy != 0 || r.killed || r.why != WhyExited || r.gone != (name == "nobody left") {
			t.Errorf("%s: SIGTERM is to be sent at %s: %+v", name, r.countBy, r)
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
