// Package profile takes profiles of the processes of a comparison: what they did
// with the processor, what they allocated, which locks they waited for, and an
// execution trace of the beginning. They are taken where the environment names a
// folder, of this process and of all that it starts, each into files of its own.
package profile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"time"
)

// Variable is that of the environment which names the folder.
const Variable = "WINDLASS_PEERS_PROFILE"

// traceFor bounds the execution trace, which grows by megabytes a second.
const traceFor = 5 * time.Second

// mutexFraction has one in so many waits for a lock recorded.
const mutexFraction = 10

// sliceFor is how long a part of the processor profile is. A process that is killed
// loses the last one, and no more.
const sliceFor = 3 * time.Second

// Begin begins to take profiles of this process, if they are asked for. stop writes
// down what is not yet.
func Begin(role string) (stop func() error, err error) {
	dir := os.Getenv(Variable)
	if dir == "" {
		return func() error { return nil }, nil
	}
	return begin(filepath.Join(dir, fmt.Sprintf("%s-%d", role, os.Getpid())))
}

// The endings of the files. A file that is being written has another one.
const (
	cpuEnding    = ".cpu.pprof"
	allocsEnding = ".allocs.pprof"
	mutexEnding  = ".mutex.pprof"
	traceEnding  = ".trace"
	partEnding   = ".part"
)

// begin takes profiles into files whose names begin with a path.
func begin(path string) (stop func() error, err error) {
	events, err := os.Create(path + traceEnding)
	if err != nil {
		return nil, err
	}
	if err := trace.Start(events); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	runtime.SetMutexProfileFraction(mutexFraction)
	stopTrace := sync.OnceFunc(trace.Stop)
	timer := time.AfterFunc(traceFor, stopTrace)
	over := make(chan struct{})
	var slices sync.WaitGroup
	var failed error
	slices.Go(func() {
		for n := 0; failed == nil; n++ {
			failed = slice(fmt.Sprintf("%s.%d", path, n), over)
			failed = errors.Join(failed, cumulative(path))
			select {
			case <-over:
				return
			default:
			}
		}
	})
	return func() error {
		close(over)
		slices.Wait()
		timer.Stop()
		stopTrace()
		runtime.GC() // what was allocated since the last collection is not counted before the next
		return errors.Join(failed, events.Close(), cumulative(path))
	}, nil
}

// slice takes one part of the processor profile.
func slice(path string, over <-chan struct{}) error {
	return create(path+cpuEnding, func(out io.Writer) error {
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		select {
		case <-over:
		case <-time.After(sliceFor):
		}
		return nil
	})
}

// cumulative writes down what is counted since the process began.
func cumulative(path string) error {
	var errs []error
	for ending, name := range map[string]string{allocsEnding: "allocs", mutexEnding: "mutex"} {
		errs = append(errs, create(path+ending, func(out io.Writer) error { return pprof.Lookup(name).WriteTo(out, 0) }))
	}
	return errors.Join(errs...)
}

// create writes a file that is there only when it is complete.
func create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path + partEnding)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+partEnding, path)
}
