//go:build e2e

package exectask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// slack is what a loaded test machine may add to a time that is kept.
const slack = 20 * time.Second

func TestNothingStartsBeforeTheFirstDeadlineOrAfterItsEnd(t *testing.T) {
	s := startIdle(t)
	refused := func(want string) {
		t.Helper()
		_, err := s.Run(t.Context(), script("t", "true"))
		contains(t, err, want)
		if !errors.Is(err, ErrPastDeadline) {
			t.Errorf("%v is not ErrPastDeadline", err)
		}
	}
	refused("no deadline was set yet")
	s.SetDeadline(clock.Boot()-time.Second, clock.Boot()+time.Hour)
	refused("the deadline passed 1.")
	s.SetDeadline(clock.Boot()+time.Hour, clock.Boot()+time.Hour)
	runOK(t, s, script("t", "true"))
}

func TestStopDeadlineIsSIGTERMAndHardDeadlineSIGKILL(t *testing.T) {
	s := start(t)
	soft, stubborn := marker(), marker()
	a := background(t, s, script("soft", "trap 'exit 9' TERM; sleep "+soft+" & wait"))
	c := script("stubborn", "trap '' TERM; sleep "+stubborn)
	c.Grace = time.Hour
	b := background(t, s, c)
	appears(t, soft, 2)
	appears(t, stubborn, 2)
	stop := clock.Boot() + 300*time.Millisecond
	hard := stop + 500*time.Millisecond
	s.SetDeadline(stop, hard)
	if o := a.wait(t); o.err != nil || o.result.Why != WhyDeadline || o.result.Code != 9 || clock.Boot() < stop {
		t.Errorf("soft: %s, %v", o.result, o.err)
	}
	if o := b.wait(t); o.err != nil || o.result.Why != WhyDeadline || o.result.Signal != "SIGKILL" || clock.Boot() < hard || clock.Boot() > hard+slack {
		t.Errorf("stubborn: %s, %v, %s after hard", o.result, o.err, clock.Boot()-hard)
	}
}

func TestARenewedDeadlineLetsARunLive(t *testing.T) {
	s := start(t)
	r := background(t, s, script("t", "sleep 3; exit 2"))
	renew := time.NewTicker(20 * time.Millisecond)
	defer renew.Stop()
	for {
		s.SetDeadline(clock.Boot()+2*time.Second, clock.Boot()+2*time.Second)
		select {
		case o := <-r.done:
			if o.err != nil || o.result.Why != WhyExited || o.result.Code != 2 {
				t.Errorf("got %s, %v", o.result, o.err)
			}
			return
		case <-renew.C:
		}
	}
}

func TestNothingSurvivesAKilledNode(t *testing.T) {
	m := marker()
	node, supervisor := startNode(t, nodePlan{
		Stop: time.Hour, Hard: time.Hour, Grace: 500 * time.Millisecond,
		Script: "(setsid sleep " + m + " &); trap '' TERM; (env -i setsid sleep " + m + " &); sleep " + m + "; sleep " + m,
	})
	appears(t, m, 4)
	must(t, node.Kill())
	vanishes(t, m, 500*time.Millisecond+slack)
	eventually(t, slack, "the supervisor ends", func() bool { return syscall.Kill(supervisor, 0) != nil || zombie(supervisor) })
}

func zombie(pid int) bool {
	p, err := readStat(pid)
	return err != nil || p.zombie
}

func TestAFrozenNodesCommandsEndBetweenItsDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		script     string
		hard, ends time.Duration
	}{
		"who heeds SIGTERM ends at the stop deadline":   {"sleep ", time.Hour, time.Second},
		"who ignores SIGTERM ends at the hard deadline": {"trap '' TERM; (setsid sh -c 'sleep $0' $M &); sleep ", 2 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := marker()
			node, _ := startNode(t, nodePlan{Stop: time.Second, Hard: c.hard, Grace: time.Hour, Script: "M=" + m + "; " + c.script + m})
			appears(t, m, 2)
			// The last renewal was sent at most one period before this.
			frozen := clock.Boot() - 20*time.Millisecond
			must(t, node.Signal(syscall.SIGSTOP))
			vanishes(t, m, c.ends+slack)
			if d := clock.Boot() - frozen; d < c.ends-100*time.Millisecond {
				t.Errorf("gone %s after the freeze: want %s", d, c.ends)
			}
			must(t, node.Signal(syscall.SIGCONT))
		})
	}
}

func TestAShortFreezeHarmsNobody(t *testing.T) {
	m := marker()
	node, supervisor := startNode(t, nodePlan{Stop: 20 * time.Second, Hard: 30 * time.Second, Answer: 3 * time.Second, Script: "sleep " + m})
	appears(t, m, 2)
	before := alive(t, m)
	must(t, node.Signal(syscall.SIGSTOP))
	runtimePause(4 * time.Second)
	must(t, node.Signal(syscall.SIGCONT))
	// Longer than the node would need to take its supervisor for lost.
	runtimePause(4 * time.Second)
	if now := alive(t, m); len(now) != len(before) || now[0] != before[0] {
		t.Errorf("processes were %v, are %v", before, now)
	}
	if zombie(supervisor) {
		t.Error("the supervisor was replaced")
	}
}

func TestNothingSurvivesAKilledSupervisor(t *testing.T) {
	m := marker()
	s := start(t)
	r := background(t, s, script("t", "(setsid sleep "+m+" &); (trap '' TERM; sleep "+m+") & sleep "+m))
	appears(t, m, 4)
	old := s.Pid()
	must(t, syscall.Kill(old, syscall.SIGKILL))
	o := r.wait(t)
	if !errors.Is(o.err, ErrSupervisorLost) {
		t.Errorf("got %s, %v", o.result, o.err)
	}
	vanishes(t, m, 0)
	if res := runOK(t, s, script("t", "echo again")); string(res.Output) != "again\n" || s.Pid() == old {
		t.Errorf("after the loss: %s %q", res, res.Output)
	}
}

func TestAProgramDiesWithItsSupervisorEvenIfTheNodeIsFrozen(t *testing.T) {
	m := marker()
	node, supervisor := startNode(t, nodePlan{Stop: time.Hour, Hard: time.Hour, Script: "exec sleep " + m})
	appears(t, m, 1)
	must(t, node.Signal(syscall.SIGSTOP))
	must(t, syscall.Kill(supervisor, syscall.SIGKILL))
	vanishes(t, m, slack)
}

// detached is a script that starts processes which leave it in every way that needs no other
// service.
func detached(m string) string {
	return "(setsid env -i sleep " + m + " &); (env -i setsid sh -c '(trap : TERM HUP; sleep " + m + "; :) & sleep " + m + "; :' &); trap '' TERM; sleep " + m + "; :"
}

// sleeping waits for n processes of sleep: their parents are shells that show m too.
func sleeping(t *testing.T, m string, n int) {
	t.Helper()
	eventually(t, slack, fmt.Sprintf("%d sleep for %s", n, m), func() bool {
		pids := slices.DeleteFunc(alive(t, m), func(pid int) bool {
			cmdline, _ := os.ReadFile(procPath(pid, "cmdline"))
			return !strings.HasPrefix(string(cmdline), "sleep\x00")
		})
		return len(pids) == n
	})
}

// grouped skips where commands have no control group.
func grouped(t *testing.T) {
	t.Helper()
	if err := start(t).Ungrouped(); err != nil {
		t.Skipf("needs control groups of version 2 that it may make: %v", err)
	}
}

func TestNothing_X01_SurvivesItsNodeAndSupervisorHoweverTheyDie(t *testing.T) {
	grouped(t)
	for name, die := range map[string]func(node *os.Process, supervisor int){
		"together":             func(node *os.Process, supervisor int) { _ = node.Kill(); _ = syscall.Kill(supervisor, syscall.SIGKILL) },
		"the supervisor first": func(node *os.Process, supervisor int) { _ = syscall.Kill(supervisor, syscall.SIGKILL); _ = node.Kill() },
		"the supervisor, the node frozen": func(node *os.Process, supervisor int) {
			_ = node.Signal(syscall.SIGSTOP)
			_ = syscall.Kill(supervisor, syscall.SIGKILL)
		},
		"the node, and the supervisor frozen and killed": func(node *os.Process, supervisor int) {
			_ = syscall.Kill(supervisor, syscall.SIGSTOP)
			_ = node.Kill()
			_ = syscall.Kill(supervisor, syscall.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 13 {
				m := marker()
				node, supervisor := startNode(t, nodePlan{Stop: time.Hour, Hard: time.Hour, Grace: 500 * time.Millisecond, Script: detached(m)})
				sleeping(t, m, 4)
				die(node, supervisor)
				vanishes(t, m, slack)
			}
		})
	}
}

// Nobody but the guard is left to keep the deadline.
func TestNothing_X01_OutlivesTheDeadlineWhileNodeAndSupervisorAreFrozen(t *testing.T) {
	grouped(t)
	for range 5 {
		const hard = time.Second
		m := marker()
		began := time.Now()
		node, supervisor := startNode(t, nodePlan{Stop: hard / 2, Hard: hard, Script: detached(m)})
		sleeping(t, m, 4)
		_ = syscall.Kill(supervisor, syscall.SIGSTOP)
		_ = node.Signal(syscall.SIGSTOP)
		if frozen := time.Since(began); frozen > hard/2 {
			t.Logf("frozen after %v, which may be too late to show anything", frozen)
		}
		vanishes(t, m, hard+slack)
		_ = syscall.Kill(supervisor, syscall.SIGCONT)
		_ = node.Signal(syscall.SIGCONT)
	}
}

func TestStart_X02_EndsWhatIsLeftOfANodeThatDiedWithAllThatGuardsIt(t *testing.T) {
	grouped(t)
	m := marker()
	node, supervisor := startNode(t, nodePlan{Stop: time.Hour, Hard: time.Hour, Script: detached(m)})
	sleeping(t, m, 4)
	guards := childrenOf(t, node.Pid, "guard-of-commands")
	if len(guards) != 1 {
		t.Fatalf("guards of the node: %v", guards)
	}
	for _, pid := range []int{guards[0], node.Pid, supervisor} {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	// The first to start may find them dying, with all that they hold.
	eventually(t, slack, "nothing is left when the next one has started", func() bool {
		runOK(t, start(t), script("t", "true"))
		return len(alive(t, m)) == 0
	})
}

// childrenOf returns the children of a process with a name.
func childrenOf(t *testing.T, parent int, name string) (pids []int) {
	t.Helper()
	table, err := processes()
	must(t, err)
	for pid, p := range table {
		cmdline, _ := os.ReadFile(procPath(pid, "cmdline"))
		if p.ppid == parent && strings.HasPrefix(string(cmdline), name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestLink_X02_NoRunIsOverAsLongAsAProcessOfItIsKnownToLive(t *testing.T) {
	left := []int{2, 1, 1, 0}
	w := &waiter{run: "a", done: make(chan outcome, 1), samples: make(chan sample, 1)}
	l := &link{cmd: &exec.Cmd{Process: &os.Process{Pid: 1}}, waiting: map[string]*waiter{"a": w}}
	l.sweep = func(int, map[string]int) int {
		if len(w.done) > 0 {
			t.Error("it was answered while a process lived")
		}
		n := left[0]
		left = left[1:]
		return n
	}
	l.abandon(errors.New("killed"))
	if o := <-w.done; !errors.Is(o.err, ErrSupervisorLost) || len(left) > 0 {
		t.Errorf("%v, with %v to go", o.err, left)
	}
}

func TestAFreshSupervisorKnowsTheDeadline(t *testing.T) {
	s := startIdle(t)
	s.SetDeadline(clock.Boot()-time.Second, clock.Boot()+time.Hour)
	must(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	eventually(t, 10*time.Second, "the loss is seen", func() bool { return s.Pid() == 0 })
	_, err := s.Run(t.Context(), script("t", "true"))
	contains(t, err, "the deadline passed")
}

func TestAFrozenSupervisorIsReplacedAndItsRunsKilled(t *testing.T) {
	m := marker()
	s := start(t, func(c *Config) { c.Answer = time.Second })
	r := background(t, s, script("t", "(setsid sleep "+m+" &); sleep "+m))
	appears(t, m, 3)
	must(t, syscall.Kill(s.Pid(), syscall.SIGSTOP))
	began := time.Now()
	r.cancel()
	o := r.wait(t)
	if !errors.Is(o.err, ErrSupervisorLost) || !errors.Is(o.err, context.Canceled) {
		t.Errorf("got %s, %v", o.result, o.err)
	}
	if d := time.Since(began); d > time.Second+time.Second/pingsMax+slack {
		t.Errorf("took %s", d)
	}
	vanishes(t, m, 0)
	runOK(t, s, script("t", "true"))
}

func TestCloseOfAFrozenSupervisor(t *testing.T) {
	m := marker()
	s := start(t, func(c *Config) { c.Grace = 100 * time.Millisecond })
	r := background(t, s, script("t", "sleep "+m))
	appears(t, m, 2)
	must(t, syscall.Kill(s.Pid(), syscall.SIGSTOP))
	must(t, s.Close())
	if o := r.wait(t); !errors.Is(o.err, ErrSupervisorLost) {
		t.Errorf("got %s, %v", o.result, o.err)
	}
	vanishes(t, m, 0)
}

// The task is not to blame for a supervisor that cannot be started.
func TestACommandForWhichNoSupervisorComesUpIsLostAndNotRefused(t *testing.T) {
	s := start(t)
	must(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	setArgs := func(role string) {
		s.spawning.Lock()
		defer s.spawning.Unlock()
		s.cfg.Args = []string{role}
	}
	setArgs(absentRole) // it ends at once
	if _, err := s.Run(t.Context(), script("t", "true")); !errors.Is(err, ErrSupervisorLost) {
		t.Errorf("%v", err)
	}
	setArgs(supervisorRole)
	runOK(t, s, script("t", "true"))
}

func TestASupervisorThatIsKilledWhileItStartsIsStartedAgain(t *testing.T) {
	was := filepath.Join(t.TempDir(), "was killed")
	s, err := Start(t.Context(), Config{Args: []string{clumsyRole, was}})
	must(t, err)
	defer s.Close()
	if _, err := os.Stat(was); err != nil {
		t.Errorf("it was not killed: %v", err)
	}
}

func TestStartSaysWhyTheSupervisorDidNotComeUp(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer null.Close()
	for want, cfg := range map[string]Config{
		`supervisor ["-test.run=^$"] did not come up`: {Args: []string{"-test.run=^$"}, Stderr: null},
		"Args is empty":                      {},
		`LogDir is "logs": must be absolute`: {Args: []string{supervisorRole}, LogDir: "logs"},
	} {
		_, err := Start(t.Context(), cfg)
		contains(t, err, want)
	}
}
