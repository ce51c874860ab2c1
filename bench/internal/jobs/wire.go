package jobs

import (
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// order is what a worker process is told by its command line.
type order struct {
	System string `json:"system"`
	Name   string `json:"name"`
	// Addresses and Password are those of the store, Address where there is one.
	Addresses []string `json:"addresses"`
	Password  string   `json:"password,omitempty"`
	// Tuned asks for other settings than the defaults; the process has the collector,
	// too.
	Tuned bool `json:"tuned"`
}

// said is a line that a worker says.
type said struct {
	// Ready is said once, when the worker takes jobs.
	Ready bool `json:"ready,omitempty"`
	// Done is how many jobs it has completed, At when the last one was, and Ran when
	// the handler of the last one began, in nanoseconds of the wall clock.
	Done int64 `json:"done,omitempty"`
	At   int64 `json:"at,omitempty"`
	Ran  int64 `json:"ran,omitempty"`
}

// sayEvery is how often a worker says what it has completed, if that has changed.
const sayEvery = 5 * time.Millisecond

// counter counts what a worker completes. Its methods are safe for concurrent use.
type counter struct {
	done, at, ran atomic.Int64
	changed       chan struct{}

	mu  sync.Mutex
	out *json.Encoder
}

func newCounter(out io.Writer) *counter {
	return &counter{changed: make(chan struct{}, 1), out: json.NewEncoder(out)}
}

// runs notes that a handler begins.
func (c *counter) runs() { c.ran.Store(time.Now().UnixNano()) }

// completes notes that so many jobs are completed.
func (c *counter) completes(jobs int) {
	c.at.Store(time.Now().UnixNano())
	c.done.Add(int64(jobs))
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *counter) ready() { c.say(said{Ready: true}) }

// say writes a line. Nobody is left to tell if that fails: the input ends then.
func (c *counter) say(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(s)
}

// tell says what is completed until over is closed.
func (c *counter) tell(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-c.changed:
		}
		done := c.done.Load()
		c.say(said{Done: done, At: c.at.Load(), Ran: c.ran.Load()})
		select {
		case <-over:
			return
		case <-time.After(sayEvery):
		}
	}
}
