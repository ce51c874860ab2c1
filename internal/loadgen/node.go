package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/session"
)

// countEvery is how often a node says how many tasks it runs, if that changed.
const countEvery = 10 * time.Millisecond

// NodeConfig is what a node process is told by its command line.
type NodeConfig struct {
	// Broker is for this node alone. It is not closed.
	Broker     broker.Broker
	Namespace  string
	Name       string
	SessionTTL time.Duration
}

// RunNode is the body of a node process: one node whose handlers only wait. It
// talks to the process that started it over in and out, and works until in ends.
func RunNode(ctx context.Context, in io.Reader, out io.Writer, c NodeConfig) error {
	n := &nodeProcess{
		broker: &countedBroker{Broker: c.Broker}, voice: voice{out: json.NewEncoder(out)},
		recorder: recorder{changed: make(chan struct{}, 1)},
	}
	node, err := windlass.NewNode(windlass.Config{
		Broker: n.broker, Namespace: c.Namespace, Name: c.Name, SessionTTL: c.SessionTTL,
		Handlers:    map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(n.recorder.handle)},
		Coordinator: n.claims.wrap,
		Events:      windlass.Events{Joined: func(string, session.Timing) { n.joined(time.Now()) }},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var both sync.WaitGroup
	var runErr error
	both.Go(func() {
		runErr = node.Run(ctx)
		if ctx.Err() == nil || runErr != nil {
			n.say(said{Failed: errors.Join(errors.New("the node has stopped"), runErr).Error()})
		}
		stop()
	})
	both.Go(func() { n.sayCounts(ctx) })
	n.answerUntilEOF(in)
	stop()
	both.Wait()
	return runErr
}

// nodeProcess is what the goroutines of a node process share.
type nodeProcess struct {
	voice
	recorder recorder
	claims   claimCounts
	broker   *countedBroker
}

// voice says one line after the other. Nobody is left to tell if that fails: the
// end of the input follows.
type voice struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (v *voice) say(s said) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.out.Encode(s)
}

func (n *nodeProcess) joined(at time.Time) {
	n.say(said{Joined: at.UnixNano(), Answer: &answer{Usage: usageNow(false)}})
}

// sayCounts says how many tasks run, each time that it has changed. It sleeps while
// nothing does: what a node costs when it is idle is measured, too.
func (n *nodeProcess) sayCounts(ctx context.Context) {
	last := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.recorder.changed:
		}
		if now := n.recorder.count(); now != last {
			last = now
			n.say(said{Running: &now})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(countEvery):
		}
	}
}

func (n *nodeProcess) answerUntilEOF(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case askReport:
			n.report(false)
		case askCollected:
			n.report(true)
		}
	}
}

func (n *nodeProcess) report(collect bool) {
	events, asOf, running := n.recorder.take()
	for some := range slices.Chunk(events, eventsPerLine) {
		n.say(said{Events: some})
	}
	events = nil // or they would be in what is measured now
	n.say(said{Answer: &answer{
		Usage: usageNow(collect), AsOf: asOf, Running: running,
		Attempts: n.claims.attempts.Load(), Lost: n.claims.lost.Load(), Requests: n.broker.counts(),
	}})
}
