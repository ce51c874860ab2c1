//go:build e2e && linux

package acceptance

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stream submits commands that end by themselves, some a second, until it is
// told to stop or its time is over. A submission that was not acknowledged is repeated, as a script
// would do it; only what was acknowledged counts as promised.
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

// Bounds of the stream: how long commands run, how many are submitted at once, how
// often, and how long what is submitted with them is.
const (
	finiteMin   = 100 * time.Millisecond
	finiteMax   = 20 * time.Second
	batchMax    = 4
	streamEvery = 800 * time.Millisecond
	retryEvery  = 200 * time.Millisecond
	paddingMax  = 200 << 10 // bytes
)

// marking notes its beginning and its end, with the token, and sleeps between.
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

// line is one command as JSON. Short ones are as frequent as long ones, on a
// logarithmic scale, in time as in bytes, half of which are an argument and half a
// variable.
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

// pending are the tasks that were promised and not yet audited.
func (s *stream) pending() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.promised...)
}

// forget drops audited tasks, in the order in which they were promised.
func (s *stream) forget(audited map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, id := range s.promised {
		if !audited[id] {
			left = append(left, id)
		}
	}
	s.promised = left
}

// mark is what the runs of one task have noted, by token.
type mark struct{ begins, ends map[int64]int }

// marksOf reads what the runs of a task have noted.
func (f *fleet) marksOf(id string) (mark, error) {
	m := mark{map[int64]int{}, map[int64]int{}}
	file, err := os.Open(f.path("marks", id))
	if err != nil {
		return m, err
	}
	defer file.Close() // only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != id {
			return m, fmt.Errorf("line %q", lines.Text())
		}
		token, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return m, err
		}
		if fields[2] == "end" {
			m.ends[token]++
		} else {
			m.begins[token]++
		}
	}
	return m, lines.Err()
}
