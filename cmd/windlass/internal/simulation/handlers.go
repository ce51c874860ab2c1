package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"runtime"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// behaviour is how the handler of a task behaves. The task's ID decides it.
type behaviour uint8

const (
	// endless runs until it is told to stop, and then returns.
	endless behaviour = iota
	// late is endless, and uses all of its grace to return.
	late
	// stubborn is endless, and ignores its context.
	stubborn
	// stepwise keeps its progress in the ledger and is done after some steps.
	stepwise
	// quick is done at once.
	quick
	// flaky sometimes returns an error before it is done.
	flaky
	// panicking sometimes panics before it is done.
	panicking
	// exiting sometimes ends its goroutine before it is done.
	exiting
	// doomed fails permanently.
	doomed
	// giving sometimes releases its claim before it is done.
	giving
	// final is endless, and reports that it is done when it is told to stop.
	final
	// obedient is endless, receives messages and returns them.
	obedient
	// saving keeps its progress in Windlass and is done after some steps.
	saving
	// job is a job of a tree; see jobs.
	job
)

// behaviours are those of ordinary tasks.
var behaviours = []share[behaviour]{
	{endless, 36}, {late, 12}, {stubborn, 3}, {stepwise, 22}, {quick, 8}, {flaky, 6}, {panicking, 2}, {exiting, 1},
	{doomed, 2}, {giving, 4}, {final, 4},
}

func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

func behaviourOf(id string) behaviour {
	if strings.HasPrefix(id, statefulPrefix) {
		return []behaviour{obedient, saving}[hash(id)%2]
	}
	if strings.HasPrefix(id, jobPrefix) {
		return job
	}
	return choose(behaviours, hash(id)%100)
}

// stays reports whether tasks of this kind run until they are stopped.
func (b behaviour) stays() bool { return b == endless || b == late || b == stubborn }

// steps is how many steps a stepwise task takes, one a second.
const steps = 12

// handler runs one claim on one process.
type handler struct{ process *process }

func (p *process) newHandler(windlass.Task) windlass.Handler { return handler{p} }

// errFlaky is what flaky handlers return.
var errFlaky = errors.New("this time it did not work")

// Run implements windlass.Handler.
func (h handler) Run(ctx context.Context, claim *windlass.Claim) error {
	<-h.process.started
	h.process.world.begins(windlasstest.Run{Task: claim.ID(), Token: claim.Token()})
	b := behaviourOf(claim.ID())
	if err := h.write(claim, "begun"); err != nil {
		return err
	}
	// Whether this run fails depends on the claim alone.
	unlucky := hash(claim.ID()+time.Unix(0, claim.Token()).String())%2 == 0
	switch {
	case b == stepwise:
		return h.walk(ctx, claim)
	case b == job:
		return h.work(ctx, claim)
	case b == obedient:
		return h.follow(ctx, claim)
	case b == saving:
		return h.save(ctx, claim)
	case b == quick:
		return claim.SetResult(claim.Token())
	case b == doomed:
		return windlass.Permanent(errFlaky)
	case b == flaky && unlucky:
		return errFlaky
	case b == panicking && unlucky:
		panic("this time it went very wrong")
	case b == exiting && unlucky:
		runtime.Goexit()
	case b == giving && unlucky:
		return windlass.ErrRelease
	case b == flaky, b == panicking, b == exiting, b == giving:
		return h.wait(ctx, time.Second)
	}
	return h.stay(ctx, claim, b)
}

// stay runs until it is told to stop, and ends as its kind does.
func (h handler) stay(ctx context.Context, claim *windlass.Claim, b behaviour) error {
	updates := &h.process.world.updates
	var changed <-chan json.RawMessage
	if hash(claim.ID())%3 == 0 {
		changed = claim.Updates()
	}
	for updates.runs(claim, claim.Props()); ctx.Err() == nil; {
		select {
		case props := <-changed:
			updates.runs(claim, props)
		case <-ctx.Done():
		}
	}
	if grace := h.process.timing.Grace; b == late {
		h.rest(grace * 99 / 100) // by the clock of its node, which may be fast
	} else if b == stubborn {
		h.rest(2 * h.process.timing.TTL)
	}
	h.process.pass()
	// One more step, as a process makes that was suspended and has not noticed it yet.
	// The ledger knows whether it is too late.
	_ = h.write(claim, "ended")
	switch {
	case b == final:
		return windlass.ErrDone
	case hash(claim.ID())%2 == 0:
		return nil // as many loops end
	}
	return ctx.Err()
}

// rest waits, unless the process is killed.
func (h handler) rest(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !h.process.Killed(); {
		time.Sleep(min(time.Until(end), h.process.timing.TTL/10))
		h.process.pass()
	}
}

// walk makes the remaining steps.
func (h handler) walk(ctx context.Context, claim *windlass.Claim) error {
	done := 0
	if _, err := h.process.world.progress.Read(claim, &done); err != nil {
		return err
	}
	for done < steps {
		if err := h.wait(ctx, time.Second); err != nil {
			return err
		}
		done++
		if err := h.process.world.progress.Write(claim, done); err != nil {
			return err
		}
	}
	return nil
}

func (h handler) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		h.process.pass()
		return ctx.Err()
	case <-time.After(d):
		h.process.pass()
		return nil
	}
}

// write makes a step that is visible outside.
func (h handler) write(claim *windlass.Claim, what string) error {
	h.process.pass()
	return h.process.world.effects.Write(claim, what)
}
