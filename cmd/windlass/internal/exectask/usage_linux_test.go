//go:build e2e

package exectask

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// used waits until a task's command uses what is said.
func used(t *testing.T, s *Supervisor, task, what string, is func(Usage) bool) Usage {
	t.Helper()
	var last *Usage
	eventually(t, time.Minute, what, func() bool {
		last = s.Usage(t.Context(), task)
		return last != nil && is(*last)
	})
	return *last
}

func TestUsage_TellsWhoHoldsMemoryFromWhoBurnsCPU(t *testing.T) {
	const held = 64 << 20
	s := start(t)
	m := marker()
	background(t, s, script("holds", fmt.Sprintf("(head -c %d /dev/zero; exec sleep %s) | tail", held, m)))
	background(t, s, script("burns", "while :; do :; done # "+m))
	holds := used(t, s, "holds", "64 MiB are held by three that sleep", func(u Usage) bool { return u.MemoryBytes > held && u.Processes == 3 && u.CPUShare == 0 })
	burns := used(t, s, "burns", "CPU time is used", func(u Usage) bool { return u.CPUSeconds > 1 && u.CPUShare > 0 })
	if holds.MemoryBytes > 2*held {
		t.Errorf("what holds memory: %+v", holds)
	}
	if burns.Processes != 1 || burns.MemoryBytes > held/2 {
		t.Errorf("what burns CPU: %+v", burns)
	}
	if u := s.Usage(t.Context(), "none"); u != nil {
		t.Errorf("what does not run uses %+v", *u)
	}
}

// Nothing is missing, whatever a process did to leave.
func TestUsage_CountsWhatLeftItsGroupOrSession(t *testing.T) {
	for name, change := range map[string]func(*testing.T) func(*Config){
		"as the node's user": func(*testing.T) func(*Config) { return func(*Config) {} },
		"as another":         asNobody,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, change(t))
			m := marker()
			r := background(t, s, script("t", fmt.Sprintf("setsid sleep %[1]s & (setsid sleep %[1]s &); (env -i setsid sleep %[1]s &); sleep %[1]s; :", m)))
			sleeping(t, m, 4)
			u := used(t, s, "t", "a shell and four that sleep", func(u Usage) bool { return u.Processes == 5 })
			if u.MemoryBytes == 0 {
				t.Errorf("no memory: %+v", u)
			}
			r.cancel()
			must(t, r.wait(t).err)
			if u := s.Usage(t.Context(), "t"); u != nil {
				t.Errorf("what has ended uses %+v", *u)
			}
		})
	}
}

// A child that has ended has used CPU time nevertheless, also if its parent had ended before.
func TestUsage_KeepsTheTimeOfWhatHasEnded(t *testing.T) {
	const burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
	for name, text := range map[string]string{
		"a child":   "sh -c '" + burn + "'; exec sleep ",
		"an orphan": "(sh -c '" + burn + "' &); exec sleep ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			m := marker()
			background(t, s, script("t", text+m))
			appears(t, m, 1)
			used(t, s, "t", "CPU time", func(u Usage) bool { return u.Processes == 1 && u.CPUSeconds >= 0.1 && u.CPUShare == 0 })
		})
	}
}

func TestUsage_IsNoneIfTheSupervisorIsSilent(t *testing.T) {
	s := start(t, func(c *Config) { c.Answer = time.Minute })
	m := marker()
	background(t, s, script("t", "exec sleep "+m))
	appears(t, m, 1)
	must(t, syscall.Kill(s.Pid(), syscall.SIGSTOP))
	if u := s.Usage(t.Context(), "t"); u != nil {
		t.Errorf("it says %+v", *u)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if u := s.Usage(ended, "t"); u != nil {
		t.Errorf("after its context it says %+v", *u)
	}
	must(t, syscall.Kill(s.Pid(), syscall.SIGCONT))
	used(t, s, "t", "it is told again", func(u Usage) bool { return u.Processes == 1 })
}
