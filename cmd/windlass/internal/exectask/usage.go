package exectask

import (
	"context"
	"time"

	"github.com/windlass-go/windlass/internal/pause"
)

// Usage is what all processes of a task's command use together. Its JSON is stable.
type Usage struct {
	// CPUSeconds is the CPU time since the command was started, in seconds: that of the
	// processes that live and of those that have ended. Missing is the time of ended ones
	// that their parent did not wait for, if they had left the command's process group.
	CPUSeconds float64 `json:"cpu_seconds"`
	// CPUShare is the CPU time per second in the half second before the report: 2 means
	// that two cores were busy all the time.
	CPUShare float64 `json:"cpu_share"`
	// MemoryBytes is the resident memory (RSS) of the processes, summed. What several of
	// them share counts for each, and what is swapped out for none.
	MemoryBytes int64 `json:"memory_bytes"`
	// Processes is how many live, wherever they have gone to.
	Processes int `json:"processes"`
}

const (
	// usageOver is the time over which CPUShare is measured. An average since somebody
	// last looked would have another meaning for each who looks.
	usageOver = 500 * time.Millisecond
	// usageWithin limits the time until there is a Usage, or none.
	usageWithin = 2 * time.Second
)

// Usage measures what the command of a task uses, which takes half a second. It is nil on
// other systems than Linux, if no command of the task runs or it ends meanwhile, and if the
// supervisor does not answer within two seconds or until ctx ends.
func (s *Supervisor) Usage(ctx context.Context, task string) *Usage {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil || !measures {
		return nil
	}
	w := l.runOf(task)
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usageWithin)
	defer cancel()
	first, ok := l.sample(ctx, w)
	if !ok || !pause.For(ctx, usageOver) {
		return nil
	}
	last, ok := l.sample(ctx, w)
	if !ok {
		return nil
	}
	return usageOf(first, last)
}

// usageOf makes a Usage of two samples of a run. Between them the CPU time may go down, by
// the time of a process that nobody waited for.
func usageOf(first, last sample) *Usage {
	u := &Usage{CPUSeconds: last.CPU.Seconds(), MemoryBytes: last.Memory, Processes: last.Processes}
	if over := last.At - first.At; over > 0 {
		u.CPUShare = max(0, (last.CPU-first.CPU).Seconds()/over.Seconds())
	}
	return u
}

// sample is what the processes of a run use by one walk of the supervisor, which finds them
// wherever they have gone to, and whoever they run as: every user may read /proc/<pid>/stat,
// unless /proc is mounted with hidepid, and then root still may.
type sample struct {
	At        time.Duration `json:"at"` // a reading of Boot
	CPU       time.Duration `json:"cpu"`
	Memory    int64         `json:"memory"`
	Processes int           `json:"processes"`
}

// add counts a process in.
func (u *sample) add(p proc) {
	u.CPU += p.cpu
	u.Memory += p.memory
	if !p.zombie {
		u.Processes++
	}
}

// runOf returns the run of a task, nil if there is none that has been started.
func (l *link) runOf(task string) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		if w.task == task && w.pid != 0 {
			return w
		}
	}
	return nil
}

// sample asks the supervisor for a sample of a run; false if the run, or ctx, ends before
// the answer.
func (l *link) sample(ctx context.Context, w *waiter) (sample, bool) {
	select {
	case <-w.samples: // for one who did not wait for it
	default:
	}
	l.out.put(message{Kind: kindSample, Run: w.run})
	select {
	case s, ok := <-w.samples:
		return s, ok
	case <-ctx.Done():
		return sample{}, false
	}
}

// ask makes the next walk count what a run uses.
func (l *loop) ask(r *run) {
	r.asked, r.askedAt = true, l.walk.begun
	l.walk.hurry()
}

// answer sends what the walk s found that a run uses, if it was asked for before s began.
func (l *loop) answer(r *run, s scanned) {
	switch {
	case !r.asked || r.gone:
	case s.number <= r.askedAt:
		l.walk.wanted = true
	default:
		r.asked = false
		used := r.used
		l.out.put(message{Kind: kindSample, Run: r.id, Sample: &used})
	}
}
