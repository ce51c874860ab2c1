package exectask

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// guarded is holdDeadline in virtual time.
type guarded struct {
	t *testing.T
	// skew is by how much the guard's clock is ahead, as after it was frozen for so long.
	skew atomic.Int64
	ours *io.PipeWriter
	ends []float64 // when it has ended the runs, in seconds
	fail atomic.Bool
}

func guarding(t *testing.T, test func(g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := io.Pipe()
		g := &guarded{t: t, ours: ours}
		began := time.Now()
		over := make(chan struct{})
		go func() {
			defer close(over)
			holdDeadline(theirs, g.clock, func() error {
				g.ends = append(g.ends, time.Since(began).Seconds())
				if g.fail.Load() {
					return errors.New("it cannot be killed")
				}
				return nil
			})
		}()
		test(g)
		must(t, ours.Close())
		<-over
	})
}

func (g *guarded) clock() (boot, day time.Duration) {
	boot, day = clock.Process()
	return boot + time.Duration(g.skew.Load()), day + time.Duration(g.skew.Load())
}

// tell sends a deadline that is so far away.
func (g *guarded) tell(hard time.Duration) {
	g.t.Helper()
	now := clock.Clock(g.clock).Read()
	frame, err := encode(message{Kind: kindDeadline, Until: newDeadline(now.Boot, now.Boot+hard, now)})
	must(g.t, err)
	_, err = g.ours.Write(frame)
	must(g.t, err)
}

func (g *guarded) want(ends ...float64) {
	g.t.Helper()
	synctest.Wait()
	if !slices.Equal(g.ends, ends) {
		g.t.Errorf("it has ended the runs at %v, want %v", g.ends, ends)
	}
}

func TestHoldDeadline_X01_EndsWhatIsLeftAtTheLastDeadline(t *testing.T) {
	guarding(t, func(g *guarded) {
		time.Sleep(time.Minute)
		for range 10 {
			g.tell(5 * time.Second)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		g.want(74.1)      // the last one came after 69 s
		g.tell(time.Hour) // the node is back
		time.Sleep(time.Minute)
		g.want(74.1)
	})
}

func TestHoldDeadline_X01_TriesAgainWhatItCouldNotEnd(t *testing.T) {
	guarding(t, func(g *guarded) {
		g.fail.Store(true)
		g.tell(time.Second)
		time.Sleep(3500 * time.Millisecond)
		g.fail.Store(false)
		time.Sleep(time.Minute)
		g.want(1.1, 2.1, 3.1, 4.1)
	})
}

// A guard that alone was frozen past the last deadline that it knows ends nothing before it has
// read what came meanwhile, and what the supervisor then sends that did not fit in.
func TestHoldDeadline_X01_AGuardThatWasFrozenReadsAllItsNewsFirst(t *testing.T) {
	guarding(t, func(g *guarded) {
		g.tell(5 * time.Second)
		time.Sleep(guardTick - tick/2)
		g.skew.Store(int64(time.Hour))
		time.Sleep(tick) // it looks now
		for i := range 100 {
			g.tell(time.Duration(i-200) * time.Second) // all of them are over
		}
		time.Sleep(tick)
		g.tell(time.Hour)
		time.Sleep(time.Minute)
		g.want()
		g.skew.Add(int64(2 * time.Hour)) // and nobody sends anything
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(g.ends) != 1 {
			t.Errorf("it has ended the runs at %v, want once", g.ends)
		}
	})
}

func TestLifeline_X01_AFullPipeGetsTheLastDeadlineOnceThereIsRoom(t *testing.T) {
	theirs, ours, err := os.Pipe()
	must(t, err)
	defer theirs.Close()
	defer ours.Close()
	fd := int(ours.Fd()) // which makes it blocking
	must(t, syscall.SetNonblock(fd, true))
	l := &lifeline{fd: fd}
	n := time.Duration(0)
	for ; l.unsent == nil && n < 100_000; n++ {
		l.tell(deadline{Hard: n})
	}
	l.tell(deadline{Hard: n})
	if l.unsent == nil {
		t.Fatal("the pipe takes everything")
	}
	var got []time.Duration
	for len(got) == 0 || got[len(got)-1] != n {
		m, err := decode(theirs)
		must(t, err)
		got = append(got, m.Until.Hard)
		l.flush()
	}
	if !slices.IsSorted(got) || l.unsent != nil || len(got) > int(n) {
		t.Errorf("%d deadlines came, the last is %v of %v", len(got), got[len(got)-1], n)
	}
	must(t, theirs.Close())
	l.tell(deadline{})
	if l.unsent != nil {
		t.Error("it keeps what it has for a guard that is dead")
	}
}
