//go:build e2e && linux

package acceptance

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// stream submits short commands, a few a second, until it is stopped or its time is over. It
// repeats a submission that was not acknowledged, as a script would. Only acknowledged tasks
// count as promised.
type stream struct {
	f      *fleet
	random *rand.Rand // of the submitting goroutine
	until  time.Time
	end    func() // stops submitting; what was not acknowledged by then is not promised
	stop   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	promised []string // acknowledged and not yet audited
	total    int
	repeats  int // submissions that had to be repeated
}

// Limits of the stream: how long commands run, how many are submitted at once and how often,
// and the size of their padding.
const (
	finiteMin   = 100 * time.Millisecond
	finiteMax   = 20 * time.Second
	batchMax    = 4
	streamEvery = 800 * time.Millisecond
	retryEvery  = 200 * time.Millisecond
	paddingMax  = 200 << 10 // bytes
)

// marking is a command that records its start and its end, with the token, and sleeps between.
const marking = `echo "$WINDLASS_TASK $WINDLASS_TOKEN begin" >>"$MARKS"; sleep "$0" && echo "$WINDLASS_TASK $WINDLASS_TOKEN end" >>"$MARKS"`

func startStream(f *fleet, seed uint64, until time.Time) *stream {
	s := &stream{f: f, until: until, random: rand.New(rand.NewPCG(seed, 2)), stop: make(chan struct{})}
	must(f.t, os.Mkdir(f.path("marks"), 0o700))
	s.done.Go(s.run)
	s.end = sync.OnceFunc(func() {
		close(s.stop)
		s.done.Wait()
	})
	f.t.Cleanup(s.end)
	return s
}

func (s *stream) run() {
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for next := 0; time.Now().Before(s.until); {
		var ids []string
		var lines []string
		for range 1 + s.random.IntN(batchMax) {
			id := fmt.Sprintf("f%07d", next)
			next++
			ids, lines = append(ids, id), append(lines, s.line(id))
		}
		if err := s.submit(strings.Join(lines, "\n")); err != nil {
			if !errors.Is(err, errStopped) {
				s.f.t.Errorf("submit %v: %v", ids, err)
			}
			return
		}
		s.mu.Lock()
		s.promised = append(s.promised, ids...)
		s.total += len(ids)
		s.mu.Unlock()
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

// line returns a command as JSON. Its duration and its size are uniform on a logarithmic scale;
// half of the size is an argument and half a variable.
func (s *stream) line(id string) string {
	last := finiteMin.Seconds() * math.Pow(finiteMax.Seconds()/finiteMin.Seconds(), s.random.Float64())
	half := strings.Repeat("x", int(math.Pow(paddingMax, s.random.Float64()))/2)
	return fmt.Sprintf(`{"id":%q,"type":"exec","props":{"command":["sh","-c",%q,"%.2f",%q],"env":{"MARKS":%q,"PADDING":%q}}}`,
		id, marking, last, half, s.f.path("marks", id), half)
}

var errStopped = errors.New("the stream was told to stop")

func (s *stream) submit(lines string) error {
	file := s.f.path("stream.jsonl")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		return err
	}
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for end := time.Now().Add(3 * patience); ; {
		_, errs, code := s.f.call("task", "submit", "-f", file)
		switch {
		case code == 0:
			return nil
		case code != exitUnavailable && code != exitSignalled || time.Now().After(end):
			return fmt.Errorf("exit code %d: %s", code, errs)
		}
		s.mu.Lock()
		s.repeats++
		s.mu.Unlock()
		select {
		case <-s.stop:
			return errStopped
		case <-retry.C:
		}
	}
}

// pending returns the tasks that were promised and not yet audited.
func (s *stream) pending() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.promised)
}

// forget drops audited tasks.
func (s *stream) forget(audited map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised = slices.DeleteFunc(s.promised, func(id string) bool { return audited[id] })
}

// mark is what the runs of one task have recorded, by token.
type mark struct{ begins, ends map[int64]int }

// marksOf reads what the runs of a task have recorded.
func (f *fleet) marksOf(id string) (mark, error) {
	m := mark{map[int64]int{}, map[int64]int{}}
	text, err := os.ReadFile(f.path("marks", id))
	for line := range strings.Lines(string(text)) {
		var task, what string
		var token int64
		if _, err := fmt.Sscan(line, &task, &token, &what); err != nil || task != id {
			return m, fmt.Errorf("line %q: %v", line, err)
		}
		if what == "end" {
			m.ends[token]++
		} else {
			m.begins[token]++
		}
	}
	return m, err
}
