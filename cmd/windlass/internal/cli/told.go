package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/internal/pause"
)

// told is the signal that a process was told to stop with, if any.
type told struct {
	signals   chan os.Signal
	listening sync.WaitGroup
	by        os.Signal
	cancel    context.CancelFunc
}

// untilTold returns a context that is done once the process is told to stop. A second signal ends
// the process at once.
func untilTold(parent context.Context) (context.Context, *told) {
	ctx, cancel := context.WithCancel(parent)
	t := &told{signals: make(chan os.Signal, 1), cancel: cancel}
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as after nohup
		stops = append(stops, syscall.SIGHUP) // the terminal was closed
	}
	signal.Notify(t.signals, stops...)
	t.listening.Go(func() {
		select {
		case t.by = <-t.signals:
			signal.Stop(t.signals)
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, t
}

// stop ends the context and listens no more.
func (t *told) stop() {
	signal.Stop(t.signals)
	t.cancel()
	t.listening.Wait()
}

// end ends the process by the signal that it was told to stop with, as if nobody had listened:
// whoever started it learns that it was told, which an exit code alone does not say, to systemd
// for one. Where the signal is ignored, or there was none, it returns the exit code for it.
func (t *told) end() int {
	t.stop()
	by, ok := t.by.(syscall.Signal)
	if !ok {
		return exitInterrupted
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(by) == nil {
		pause.For(context.Background(), deliveredWithin)
	}
	return exitSignalled + int(by)
}

const (
	// exitSignalled is the exit code that shells report for a process that a signal has ended,
	// less the number of the signal.
	exitSignalled = 128
	// deliveredWithin is how long a signal of a process to itself takes at most.
	deliveredWithin = 100 * time.Millisecond
)
