//go:build e2e

package exectask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestResultTellsHowTheProgramEnded(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		script string
		want   Result
		ok     bool
	}{
		{"exit 0", Result{Why: WhyExited}, true},
		{"exit 3", Result{Why: WhyExited, Code: 3}, false},
		{"kill -KILL $$", Result{Why: WhyExited, Code: -1, Signal: "SIGKILL"}, false},
		{"kill -SEGV $$", Result{Why: WhyExited, Code: -1, Signal: "SIGSEGV"}, false},
	} {
		res := runOK(t, s, script("t", c.script))
		if res.Why != c.want.Why || res.Code != c.want.Code || res.Signal != c.want.Signal || res.OK() != c.ok {
			t.Errorf("%s: got %s (%+v)", c.script, res, res)
		}
		if res.Pid == 0 || res.Run == "" || res.Started.IsZero() {
			t.Errorf("%s: incomplete %+v", c.script, res)
		}
	}
	res := runOK(t, s, script("t", "sleep 0.3"))
	if d := res.Finished.Sub(res.Started); min(d, res.Duration) < 290*time.Millisecond {
		t.Errorf("a command that sleeps 300ms took %s and finished %s after its start", res.Duration, d)
	}
}

func TestResultCarriesTheEndOfBothOutputs(t *testing.T) {
	s := start(t, func(c *Config) { c.Tail = 16 })
	res := runOK(t, s, script("t", "echo out; echo err >&2"))
	if string(res.Output) != "out\nerr\n" || res.Truncated || res.OutputBytes != 8 {
		t.Errorf("got %q, %d bytes, truncated %v", res.Output, res.OutputBytes, res.Truncated)
	}
	res = runOK(t, s, script("t", "echo 0123456789; echo 0123456789; echo end"))
	if string(res.Output) != "\n0123456789\nend\n" || !res.Truncated || res.OutputBytes != 26 {
		t.Errorf("got %q, %d bytes, truncated %v", res.Output, res.OutputBytes, res.Truncated)
	}
}

func TestHugeOutputNeitherBlocksNorIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := start(t, func(c *Config) { c.LogDir = dir; c.LogMax = 64 << 10 })
	quiet := background(t, s, script("quiet", "echo hello"))
	res := runOK(t, s, script("loud", "head -c 20000000 /dev/zero; echo end"))
	if res.OutputBytes != 20000004 || len(res.Output) != TailDefault || !strings.HasSuffix(string(res.Output), "end\n") {
		t.Errorf("%d bytes, tail of %d", res.OutputBytes, len(res.Output))
	}
	if o := quiet.wait(t); o.err != nil || string(o.result.Output) != "hello\n" {
		t.Errorf("the quiet one: %v %q", o.err, o.result.Output)
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	total := int64(0)
	for _, f := range files {
		info, err := f.Info()
		must(t, err)
		total += info.Size()
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", f.Name(), info.Mode())
		}
	}
	if len(files) != 3 || total > 3*(64<<10) {
		t.Errorf("%d files of %d bytes, want loud.log, loud.log.1 and quiet.log", len(files), total)
	}
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("log folder has mode %s", info.Mode())
	}
}

func TestChildSeesOnlyWhatItShould(t *testing.T) {
	t.Setenv("WINDLASS_ETCD_PASSWORD", "secret")
	t.Setenv("SOMETHING", "else")
	t.Setenv("LANG", "C.UTF-8")
	s := start(t, func(c *Config) { c.Env = append(c.Env, "FOR_SUPERVISOR=1") })
	c := script("t|1", "env; pwd; cat /proc/self/status | grep NoNewPrivs; wc -c; ls /proc/self/fd | wc -l")
	c.Env = map[string]string{"MINE": "a=b", "TZ": "UTC"}
	c.Dir = "/usr"
	res := runOK(t, s, c)
	out := string(res.Output)
	for _, want := range []string{
		"WINDLASS_TASK=t|1\n", "WINDLASS_TOKEN=7\n", "WINDLASS_NODE=node-1\n", "WINDLASS_RUN=" + res.Run + "\n",
		"MINE=a=b\n", "TZ=UTC\n", "LANG=C.UTF-8\n", "PATH=", "\n/usr\n", "NoNewPrivs:\t1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("child lacks %q:\n%s", want, out)
		}
	}
	for _, not := range []string{"secret", "SOMETHING", "FOR_SUPERVISOR"} {
		if strings.Contains(out, not) {
			t.Errorf("child sees %q:\n%s", not, out)
		}
	}
	// Standard input is empty, and ls has the folder open as a fourth descriptor.
	if !strings.HasSuffix(out, "\n0\n4\n") {
		t.Errorf("child reads something or has more than its three descriptors:\n%s", out)
	}
}

func TestAStoppedRunGetsSIGTERMAndAfterItsGraceSIGKILL(t *testing.T) {
	s := start(t)
	for name, test := range map[string]struct {
		script    string // it creates the file once the trap is set
		processes int    // alive after that
		grace     time.Duration
		want      Result
		killed    bool
	}{
		"heeds SIGTERM": {"trap 'echo bye; exit 5' TERM; : >%[2]s; sleep %[1]s & wait", 2, time.Hour, Result{Code: 5, Output: []byte("bye\n")}, false},
		"ignores it":    {"trap '' TERM; : >%[2]s; sleep %[1]s; :", 2, 300 * time.Millisecond, Result{Code: -1, Signal: "SIGKILL"}, true},
		"a process that left its group ignores it": {
			`(setsid sh -c "trap '' TERM; : >%[2]s; sleep %[1]s; sleep %[1]s" &); wait; sleep %[1]s`, 3, 300 * time.Millisecond,
			Result{Code: -1, Signal: "SIGTERM"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := marker()
			trapped := filepath.Join(t.TempDir(), "trapped")
			c := script("t", fmt.Sprintf(test.script, m, trapped))
			c.Grace = test.grace
			r := background(t, s, c)
			eventually(t, 10*time.Second, "the trap is set", func() bool {
				_, err := os.Stat(trapped)
				return err == nil
			})
			appears(t, m, test.processes)
			began := time.Now()
			r.cancel()
			o := r.wait(t)
			must(t, o.err)
			vanishes(t, m, 0)
			got := Result{Code: o.result.Code, Signal: o.result.Signal, Output: o.result.Output}
			if d := cmp.Diff(test.want, got); d != "" || o.result.Why != WhyStopped {
				t.Errorf("%s: %s", o.result, d)
			}
			if d := time.Since(began); test.killed && d < test.grace {
				t.Errorf("killed after %s, before its grace of %s", d, test.grace)
			}
		})
	}
}

func TestAStoppedProgramStillGetsItsSIGTERM(t *testing.T) {
	m := marker()
	s := start(t)
	r := background(t, s, script("t", "trap 'exit 6' TERM; kill -STOP $$ # "+m))
	eventually(t, 10*time.Second, "the shell stops itself", func() bool {
		for _, pid := range alive(t, m) {
			if raw, err := os.ReadFile(procPath(pid, "stat")); err == nil && strings.Contains(string(raw), ") T ") {
				return true
			}
		}
		return false
	})
	r.cancel()
	if o := r.wait(t); o.err != nil || o.result.Code != 6 {
		t.Errorf("got %s, %v", o.result, o.err)
	}
}

func TestARunEndsWithAllItsProcesses(t *testing.T) {
	for name, text := range map[string]string{
		"background child holds the pipe":      "sleep %s & exit 0",
		"ignores SIGTERM":                      "(trap '' TERM; sleep %s) & sleep 0.1; exit 0",
		"double fork with setsid":              "(setsid sleep %s &) ; sleep 0.1; exit 0",
		"double fork, setsid, no environment":  "(env -i setsid sleep %s &) ; sleep 0.1; exit 0",
		"setsid and closed outputs":            "(setsid sleep %s >/dev/null 2>&1 &) ; sleep 0.1; exit 0",
		"a tree that left":                     "(setsid sh -c 'sleep %[1]s & sleep %[1]s & wait' &) ; sleep 0.1; exit 0",
		"left, ignores SIGTERM, fresh session": "(setsid sh -c \"trap '' TERM; sleep %[1]s; sleep %[1]s\" &) ; sleep 0.1; exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := marker()
			s := start(t, func(c *Config) { c.Grace = 300 * time.Millisecond })
			res := runOK(t, s, script("t", fmt.Sprintf(text, m)))
			if left := alive(t, m); len(left) > 0 {
				t.Errorf("still alive when Run returned: %v", left)
			}
			if res.Why != WhyExited || res.Code != 0 {
				t.Errorf("got %s", res)
			}
			if res.Outlived == 0 {
				t.Error("no process is counted that outlived the program")
			}
		})
	}
}

func TestAProgramThatWaitsForItsProcessesLeavesNone(t *testing.T) {
	s := start(t)
	for range 20 {
		if res := runOK(t, s, script("t", "for i in 1 2 3; do sleep 0.01 & done; wait; (true); exit 0")); res.Outlived != 0 {
			t.Errorf("got %s", res)
		}
	}
}

// A process that the program has ended dies of the same signals as one that it has left.
func TestAProcessThatItsProgramHasEndedDoesNotOutliveIt(t *testing.T) {
	s := start(t)
	for range 20 {
		if res := runOK(t, s, script("t", "sleep 100 & kill $!; exit 0")); res.Outlived != 0 {
			t.Errorf("got %s", res)
		}
		if res := runOK(t, s, script("t", "sleep 100 & sleep 100 & exit 0")); res.Outlived != 2 {
			t.Errorf("got %s, want 2 that outlived it", res)
		}
	}
}

func TestOtherRunsSurviveTheEndOfOne(t *testing.T) {
	keep, drop := marker(), marker()
	s := start(t)
	// The other run has a straggler of its own, to be told apart by its mark.
	other := background(t, s, script("keep", "(setsid sleep "+keep+" &); sleep "+keep))
	appears(t, keep, 2)
	for range 5 {
		runOK(t, s, script("drop", "(setsid sleep "+drop+" &); sleep 0.05"))
	}
	if n := len(alive(t, keep)); n < 3 {
		t.Errorf("%d processes of the other run are left, want the shell and two sleeps", n)
	}
	other.cancel()
	must(t, other.wait(t).err)
	vanishes(t, keep, 0)
	vanishes(t, drop, 0)
}

func TestAProcessOfUnknownRunGoesWithTheFirstThatEnds(t *testing.T) {
	m, keep := marker(), marker()
	s := start(t)
	other := background(t, s, script("keep", "sleep "+keep))
	appears(t, keep, 1)
	runOK(t, s, script("t", "(env -i setsid sleep "+m+" &); sleep 0.1"))
	vanishes(t, m, 0)
	if len(alive(t, keep)) == 0 {
		t.Error("the other run was taken along")
	}
	other.cancel()
	must(t, other.wait(t).err)
}

func TestNoZombies(t *testing.T) {
	s := start(t)
	m := marker()
	r := background(t, s, script("t", "for i in 1 2 3 4 5; do (setsid true &); done; sleep "+m))
	appears(t, m, 1)
	eventually(t, 10*time.Second, "orphans are reaped", func() bool { return zombies(t, s.Pid()) == 0 })
	r.cancel()
	must(t, r.wait(t).err)
	if n := zombies(t, s.Pid()); n > 0 {
		t.Errorf("%d zombies", n)
	}
}

func zombies(t *testing.T, parent int) (n int) {
	t.Helper()
	table, err := processes()
	must(t, err)
	for _, p := range table {
		if p.zombie && p.ppid == parent {
			n++
		}
	}
	return n
}

func TestTwoHundredCommandsAtOnce(t *testing.T) {
	s := start(t)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			res, err := s.Run(t.Context(), script(fmt.Sprint("t", i), fmt.Sprintf("echo %d; exit %d", i, i%7)))
			if err != nil || res.Code != i%7 || string(res.Output) != fmt.Sprintln(i) {
				t.Errorf("%d: %s %q %v", i, res, res.Output, err)
			}
		})
	}
	group.Wait()
	if n := zombies(t, s.Pid()); n > 0 {
		t.Errorf("%d zombies", n)
	}
}

func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain, noFormat := filepath.Join(dir, "plain"), filepath.Join(dir, "noformat")
	must(t, os.WriteFile(plain, []byte("x"), 0o600))
	must(t, os.WriteFile(noFormat, []byte("echo x\n"), 0o700))
	badShebang := filepath.Join(dir, "shebang")
	must(t, os.WriteFile(badShebang, []byte("#!/no/such/interpreter\n"), 0o700))
	s := start(t)
	for _, c := range []struct {
		path, dir string
		want      string
	}{
		{"/no/such/program", "", `command "/no/such/program": not found`},
		{plain, "", "not executable, mode is -rw-------"},
		{dir, "", "is a folder"},
		{noFormat, "", "exec format error; a script needs a first line such as #!/bin/sh"},
		{badShebang, "", "the interpreter that it names is missing"},
		{"/bin/true", "/no/such/dir", `dir "/no/such/dir": does not exist`},
		{"/bin/true", plain, "is not a folder"},
	} {
		_, err := s.Run(t.Context(), Command{Task: "t", Path: c.path, Argv: []string{"x"}, Dir: c.dir})
		contains(t, err, c.want)
		if !errors.Is(err, ErrNotStarted) {
			t.Errorf("%v is not ErrNotStarted", err)
		}
	}
	runOK(t, s, script("t", "true"))
}

func TestCommandIsValidated(t *testing.T) {
	for want, change := range map[string]func(*Command){
		"task is \"\"":    func(c *Command) { c.Task = "" },
		"path is \"sh\"":  func(c *Command) { c.Path = "sh" },
		"argv is empty":   func(c *Command) { c.Argv = nil },
		"dir is \"a\"":    func(c *Command) { c.Dir = "a" },
		"grace is -1s":    func(c *Command) { c.Grace = -time.Second },
		"env is \"A B\"":  func(c *Command) { c.Env = map[string]string{"A B": ""} },
		"token is \"a\\n": func(c *Command) { c.Token = "a\n" },
	} {
		c := script("t", "true")
		change(&c)
		_, err := new(Supervisor).Run(t.Context(), c)
		contains(t, err, want)
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("%v is no *InputError", err)
		}
	}
}

func TestRunWithAnEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("the reason")
	cancel(cause)
	if _, err := new(Supervisor).Run(ctx, script("t", "true")); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsAllRunsWithTheirGrace(t *testing.T) {
	m := marker()
	s := start(t, func(c *Config) { c.Grace = time.Hour })
	r := background(t, s, script("t", "trap 'exit 4' TERM; sleep "+m+" & wait"))
	appears(t, m, 2)
	began := time.Now()
	must(t, s.Close())
	if d := time.Since(began); d > slack {
		t.Errorf("took %s though nobody ignored SIGTERM", d)
	}
	if o := r.wait(t); o.err != nil || o.result.Why != WhyStopped || o.result.Code != 4 {
		t.Errorf("got %s, %v", o.result, o.err)
	}
	vanishes(t, m, 0)
	if _, err := s.Run(t.Context(), script("t", "true")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The run is told to end before the forker has its process ID.
func TestARunThatIsToldToEndWhileItIsStartedHasItsGrace(t *testing.T) {
	runtime.LockOSThread() // the child would die with the thread
	defer runtime.UnlockOSThread()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	order := &startOrder{Path: []byte("/bin/sleep"), Argv: toBytes([]string{"sleep", "1000"}), Grace: time.Hour}
	r := &run{id: "a", order: order, termed: map[proc]bool{}}
	l := &loop{leaders: newLeaders(), out: newOutbox(), runs: map[string]*run{"a": r}, inFork: r, drained: make(chan *run, 1)}
	l.end(r, WhyStopped, order.Grace)
	pid, pipe, err := fork(null.Fd(), order, nil)
	must(t, err)
	l.forked(forked{run: r, pid: pid, pipe: pipe})
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v (%v), want SIGTERM", status.Signal(), err)
	}
	<-l.drained
}

func TestSupervisorIgnoresTheSignalsOfAShutdown(t *testing.T) {
	s := start(t)
	m := marker()
	r := background(t, s, script("t", "trap 'exit 4' TERM; sleep "+m+" & wait"))
	appears(t, m, 2)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		must(t, syscall.Kill(s.Pid(), sig))
	}
	runOK(t, s, script("t2", "true"))
	r.cancel()
	if o := r.wait(t); o.err != nil || o.result.Code != 4 {
		t.Errorf("got %s, %v", o.result, o.err)
	}
}

func TestASupervisorTendsItsLogs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	written(t, dir, "old.log", 10, 48*time.Hour)
	written(t, dir, "young.log", 10, time.Minute)
	start(t, func(c *Config) { c.LogDir, c.LogAge = dir, 24*time.Hour })
	eventually(t, 5*time.Second, "the old log is gone", func() bool {
		_, err := os.Stat(filepath.Join(dir, "old.log"))
		return os.IsNotExist(err)
	})
	sweepFolder(t, dir, 24*time.Hour, LogSpaceDefault, "young.log")
}

func TestALogThatCannotBeWrittenIsToldAndNotedByTheNextRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := start(t, func(c *Config) { c.LogDir = dir })
	path := LogPath(dir, "t")
	must(t, os.Mkdir(path, 0o700))
	told := make(chan error, 9)
	c := script("t", "echo lost; sleep 0.2")
	c.LogFailed = func(err error) { told <- err }
	r := background(t, s, c)
	contains(t, <-told, path, "is a directory")
	o := r.wait(t)
	must(t, o.err)
	if len(told) > 0 {
		t.Errorf("it is told again: %v", <-told)
	}
	if res := o.result; !strings.Contains(res.LogError, "is a directory") || res.LogMissing != 5 {
		t.Errorf("%q, %d bytes are missing, want 5", res.LogError, res.LogMissing)
	}
	must(t, os.Remove(path))
	if res := runOK(t, s, script("t", "echo kept")); res.LogError != "" || res.LogMissing != 0 {
		t.Errorf("the next: %q, %d bytes are missing", res.LogError, res.LogMissing)
	}
	all, err := os.ReadFile(path)
	must(t, err)
	const want = " at=0 (5 bytes before this line are missing: is a directory)\nkept\n"
	if !strings.HasSuffix(string(all), want) {
		t.Errorf("the log is %q, want it to end with %q", all, want)
	}
}
