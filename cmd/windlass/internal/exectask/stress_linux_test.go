//go:build e2e

package exectask

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

func TestEveryRunReturnsWhateverHappensAtOnce(t *testing.T) {
	m := marker()
	s := start(t, func(c *Config) { c.Grace = 50 * time.Millisecond })
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			for range 5 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(60))*time.Millisecond)
				_, err := s.Run(ctx, script(fmt.Sprint("t", i), "(setsid sleep "+m+" &); sleep "+m))
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrSupervisorLost) && !errors.Is(err, ErrPastDeadline) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	group.Go(func() {
		for i := range 20 {
			if i == 5 || i == 12 {
				if pid := s.Pid(); pid != 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			ahead := time.Duration(rand.IntN(100)) * time.Millisecond
			s.SetDeadline(clock.Boot()+ahead, clock.Boot()+ahead+20*time.Millisecond)
			runtimePause(10 * time.Millisecond)
		}
		s.SetDeadline(clock.Boot()+time.Hour, clock.Boot()+time.Hour)
	})
	group.Wait()
	vanishes(t, m, 0)
	runOK(t, s, script("t", "true"))
}

// runtimePause spreads load over time; no verdict depends on it.
func runtimePause(d time.Duration) { <-time.After(d) }

func TestCloseWhileRunsBegin(t *testing.T) {
	for range 5 {
		s := start(t, func(c *Config) { c.Grace = 50 * time.Millisecond })
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				for {
					if _, err := s.Run(context.Background(), script("t", "true")); err != nil {
						return
					}
				}
			})
		}
		runtimePause(time.Duration(rand.IntN(50)) * time.Millisecond)
		must(t, s.Close())
		group.Wait()
	}
}

func BenchmarkRunTrueParallel(b *testing.B) {
	s := start(b)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Run(context.Background(), Command{Task: "t", Path: "/bin/true", Argv: []string{"true"}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkSupervisorMemory reports the resident memory of an idle supervisor, and what each
// sleeping run adds.
func BenchmarkSupervisorMemory(b *testing.B) {
	for b.Loop() {
		s := start(b)
		idle := rss(b, s.Pid())
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		m := marker()
		const runs = 300
		for i := range runs {
			group.Go(func() {
				_, _ = s.Run(ctx, Command{Task: fmt.Sprint(i), Path: "/bin/sleep", Argv: []string{"sleep", m}})
			})
		}
		appears(b, m, runs)
		b.ReportMetric(idle, "KiB-idle")
		b.ReportMetric((rss(b, s.Pid())-idle)/runs, "KiB/run")
		cancel()
		group.Wait()
	}
}

func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(procPath(pid, "status"))
	must(b, err)
	number := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(text)
	kib, err := strconv.ParseFloat(string(number[1]), 64)
	must(b, err)
	return kib
}
