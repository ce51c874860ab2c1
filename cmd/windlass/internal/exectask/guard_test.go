package exectask

import (
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// guarding runs holdDeadline in virtual time. tell sends a deadline that is so far away, and ends
// is when it has ended the runs, in seconds.
func guarding(t *testing.T, test func(tell func(hard time.Duration), ends func() []float64)) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := io.Pipe()
		began := time.Now()
		var ends []float64
		over := make(chan struct{})
		go func() {
			defer close(over)
			holdDeadline(theirs, clock.Process, func() error {
				ends = append(ends, time.Since(began).Seconds())
				return nil
			})
		}()
		test(func(hard time.Duration) {
			now := clock.Clock(clock.Process).Read()
			frame, err := encode(message{Kind: kindDeadline, Until: newDeadline(now.Boot, now.Boot+hard, now)})
			must(t, err)
			_, err = ours.Write(frame)
			must(t, err)
		}, func() []float64 {
			synctest.Wait()
			return ends
		})
		must(t, ours.Close())
		<-over
	})
}

func TestHoldDeadline_X01_EndsWhatIsLeftAtTheLastDeadline(t *testing.T) {
	guarding(t, func(tell func(time.Duration), ends func() []float64) {
		time.Sleep(time.Minute)
		if got := ends(); got != nil {
			t.Errorf("it ended at %v what had no deadline", got)
		}
		for range 10 {
			tell(5 * time.Second)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second) // the last one came after 69 s
		if got := ends(); len(got) == 0 || got[0] != 74.1 {
			t.Errorf("it ended at %v, want from 74.1 on", got)
		}
		before := len(ends())
		tell(time.Hour) // the node is back
		time.Sleep(time.Minute)
		if got := ends(); len(got) != before {
			t.Errorf("it ended at %v what had got another deadline", got)
		}
	})
}

func TestHoldDeadline_X01_AGuardThatWasFrozenReadsAllItsNewsFirst(t *testing.T) {
	guarding(t, func(tell func(time.Duration), ends func() []float64) {
		for i := range 100 {
			tell(time.Duration(i-200) * time.Second) // all of them are over
		}
		time.Sleep(tick) // the supervisor sends what did not fit
		tell(time.Hour)
		time.Sleep(time.Minute)
		if got := ends(); got != nil {
			t.Errorf("it ended at %v", got)
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
