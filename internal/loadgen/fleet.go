package loadgen

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// nodeName is the name of a node by its number.
func nodeName(number int) string { return fmt.Sprintf("bench-%d", number+1) }

// member is a node process as its fleet sees it.
type member struct {
	number  int
	process *process
	// joined is when it did, zero before.
	joined time.Time
	// running is how many tasks it last said that it runs.
	running int
	// bare is what it used when it had joined.
	bare Usage
	// report is its last answer, mark the one before what is being measured.
	report, mark answer
	// asked tells that an answer is due.
	asked bool
	// leaving tells that its end is expected, gone that it has ended.
	leaving, gone bool
}

// update is something that a member said, or its end.
type update struct {
	from *member
	said said
	over bool
	err  error // of the end
}

// fleet is the node processes. Its methods are for one goroutine.
type fleet struct {
	command func(name string) *exec.Cmd
	starter *starter
	updates chan update
	ledger  *ledger
	// members are all that were ever started, by number.
	members []*member
	// closing is closed when nobody reads updates any more.
	closing chan struct{}
	// told, if set, is told how many tasks run, while that is waited for.
	told func(tasks int)
}

func newFleet(command func(name string) *exec.Cmd, l *ledger) *fleet {
	return &fleet{
		command: command, starter: newStarter(), ledger: l,
		updates: make(chan update, 64), closing: make(chan struct{}),
	}
}

// live are the members that have not gone.
func (f *fleet) live() (members []*member) {
	for _, m := range f.members {
		if !m.gone {
			members = append(members, m)
		}
	}
	return members
}

// numbers are those of the live members.
func (f *fleet) numbers() (numbers []int) {
	for _, m := range f.live() {
		numbers = append(numbers, m.number)
	}
	return numbers
}

// start starts n more members and waits until they have joined.
func (f *fleet) start(ctx context.Context, n int) ([]*member, error) {
	var started []*member
	for range n {
		m := &member{number: len(f.members)}
		var err error
		m.process, err = startProcess(f.starter.start, f.command(nodeName(m.number)), true,
			func(s said) { f.send(update{from: m, said: s}) },
			func(err error) { f.send(update{from: m, over: true, err: err}) })
		if err != nil {
			return nil, err
		}
		f.members = append(f.members, m)
		started = append(started, m)
	}
	f.ledger.grow(0, len(f.members))
	return started, f.until(ctx, func() bool {
		return !slices.ContainsFunc(started, func(m *member) bool { return m.joined.IsZero() })
	})
}

func (f *fleet) send(u update) {
	select {
	case f.updates <- u:
	case <-f.closing:
	}
}

// until takes updates until something is so.
func (f *fleet) until(ctx context.Context, is func() bool) error {
	for !is() {
		select {
		case u := <-f.updates:
			if _, err := f.take(u); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take enters an update, and tells whether a count has changed.
func (f *fleet) take(u update) (changed bool, err error) {
	m := u.from
	switch s := u.said; {
	case u.over && !m.leaving:
		return false, errors.Join(fmt.Errorf("the process of node %s has ended", nodeName(m.number)), u.err)
	case u.over:
		changed, m.gone, m.running = m.running != 0, true, 0
	case s.Failed != "" && !m.leaving:
		return false, fmt.Errorf("node %s: %s", nodeName(m.number), s.Failed)
	case s.Joined != 0 && s.Answer != nil:
		m.joined, m.bare = time.Unix(0, s.Joined), s.Answer.Usage
	case s.Running != nil:
		changed, m.running = m.running != *s.Running, *s.Running
	case s.Events != nil:
		return false, f.ledger.add(m.number, s.Events)
	case s.Answer != nil:
		m.report, m.asked = *s.Answer, false
		changed, m.running = m.running != s.Answer.Running, s.Answer.Running
	}
	return changed, nil
}

// quietFor is how long no count must have changed for a fleet to be at rest.
const quietFor = 500 * time.Millisecond

// settle waits until the counts, by number of the node, are as they should be and
// have been for a while, and all events up to then are in the ledger.
func (f *fleet) settle(ctx context.Context, as func(counts []int) bool) error {
	for {
		if err := f.quiet(ctx, as); err != nil {
			return err
		}
		if err := f.collect(ctx, askReport); err != nil {
			return err
		}
		// What was told may have been old. What is in the ledger is of one moment.
		if as(f.ledger.running) {
			return nil
		}
	}
}

// quiet waits until the counts that members told are as they should be and no more
// changes come in.
func (f *fleet) quiet(ctx context.Context, as func(counts []int) bool) error {
	rest := time.NewTimer(quietFor)
	defer rest.Stop()
	for {
		counts := make([]int, len(f.members))
		for i, m := range f.members {
			counts[i] = m.running
		}
		if f.told != nil {
			f.told(sum(counts))
		}
		var rested <-chan time.Time
		if as(counts) {
			rested = rest.C
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-rested:
			return nil
		case u := <-f.updates:
			changed, err := f.take(u)
			if err != nil {
				return err
			}
			if changed {
				rest.Reset(quietFor)
			}
		}
	}
}

// collect asks all live members for what they wrote down.
func (f *fleet) collect(ctx context.Context, request string) error {
	live := f.live()
	for _, m := range live {
		m.asked = true
		if err := m.process.ask(request); err != nil {
			return fmt.Errorf("ask node %s: %w", nodeName(m.number), err)
		}
	}
	err := f.until(ctx, func() bool { return !slices.ContainsFunc(live, func(m *member) bool { return m.asked }) })
	if err != nil || len(live) == 0 {
		return err
	}
	asOf := live[0].report.AsOf
	for _, m := range live {
		asOf = min(asOf, m.report.AsOf)
	}
	return f.ledger.take(asOf)
}

// mark begins a measurement: nothing that was before is in the log.
func (f *fleet) mark(ctx context.Context) error {
	if err := f.collect(ctx, askReport); err != nil {
		return err
	}
	f.ledger.log = nil
	for _, m := range f.members {
		m.mark = m.report
	}
	return nil
}

// requests are what the live members have asked of the broker since the mark, by
// method, and how many of them were no renewals.
func (f *fleet) requests() (counts map[string]int64, others int64) {
	counts = map[string]int64{}
	for _, m := range f.live() {
		for method, n := range m.report.Requests {
			n -= m.mark.Requests[method]
			if counts[method] += n; method != methodKeepAlive {
				others += n
			}
		}
	}
	return counts, others
}

// lostPercent is how many of the claims since the mark were lost to a race.
func (f *fleet) lostPercent() float64 {
	var attempts, lost int64
	for _, m := range f.live() {
		attempts += m.report.Attempts - m.mark.Attempts
		lost += m.report.Lost - m.mark.Lost
	}
	return 100 * float64(lost) / float64(max(attempts, 1))
}

// kill ends a member at once, and returns when.
func (f *fleet) kill(ctx context.Context, m *member) (time.Time, error) {
	m.leaving = true
	m.process.kill()
	at := time.Now()
	return at, errors.Join(f.until(ctx, func() bool { return m.gone }), f.ledger.lose(m.number, at))
}

// stop ends a member in order.
func (f *fleet) stop(ctx context.Context, m *member) error {
	m.leaving = true
	m.process.finish()
	return f.until(ctx, func() bool { return m.gone })
}

// close kills what is left and waits for its end.
func (f *fleet) close() {
	close(f.closing)
	var ends sync.WaitGroup
	for _, m := range f.members {
		m.process.kill()
		ends.Go(m.process.reader.Wait)
	}
	ends.Wait()
	f.starter.close()
}
