package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// statefulPrefix begins the IDs of tasks whose handlers receive messages or save
// their progress.
const statefulPrefix = "s"

// states has the state that commands to tasks add to a run. It has its own source of
// randomness, so that runs without it stay the same.
type states struct {
	random    *rand.Rand
	submitted int

	mu sync.Mutex
	// saved has the acknowledged steps, by task.
	saved map[string]int
}

func newStates(seed uint64) *states {
	return &states{random: rand.New(rand.NewPCG(seed, 2)), saved: map[string]int{}}
}

// messages to tasks, with their weights.
var messages = []struct {
	statemachine.Message
	weight int
}{
	{statemachine.Pause, 5}, {statemachine.Run, 5}, {statemachine.Sleep, 4}, {statemachine.Release, 2}, {statemachine.Checkpoint, 1},
	{statemachine.Kill, 1}, {statemachine.Error, 1},
}

// commandTasks submits a stateful task, or sends a command to some task.
func (w *world) commandTasks() {
	if w.states == nil {
		return
	}
	switch n := w.states.random.IntN(6); {
	case n == 0 && w.states.submitted < stayingMax:
		w.states.submitted++
		_, _ = w.submitOne(windlass.Submission{ID: fmt.Sprintf("%s%d", statefulPrefix, w.states.submitted)})
	case n < 4:
		if id, ok := w.some(func(string) bool { return w.states.random.IntN(3) == 0 }); ok {
			w.commandTask(id, w.states.message(id))
		}
	}
}

func (s *states) message(id string) statemachine.Command {
	total := 0
	for _, m := range messages {
		total += m.weight
	}
	n := s.random.IntN(total)
	for _, m := range messages {
		if n -= m.weight; n >= 0 {
			continue
		}
		switch {
		case m.Message == statemachine.Sleep:
			return statemachine.SleepUntil(time.Now().Add(upTo(s.random, 30*time.Second)))
		case m.Message == statemachine.Error && behaviourOf(id) == obedient:
			return statemachine.Fail("by command")
		case m.Message != statemachine.Error:
			return statemachine.Command{Message: m.Message}
		}
	}
	return statemachine.Command{Message: statemachine.Run}
}

func (w *world) commandTask(id string, c statemachine.Command) {
	err := w.attempt(func(ctx context.Context) error {
		_, err := w.client.SendTask(ctx, id, c)
		return err
	})
	if err == nil {
		w.count("task told to " + string(c.Message))
	}
}

// runAll sends run to every paused or sleeping task, so that it is checked as well.
func (w *world) runAll() {
	if w.states == nil {
		return
	}
	tasks, err := w.client.Tasks(w.t.Context(), windlass.Filter{})
	if err != nil {
		w.fail("list the tasks: %v", err)
		return
	}
	for _, task := range tasks {
		if task.Status == windlass.StatusPaused || task.Status == windlass.StatusSleeping {
			w.commandTask(task.ID, statemachine.Command{Message: statemachine.Run})
		}
	}
}

// ignoredCommand reports a running task with a command, or a paused task, a while after
// it was told to run (M56).
func (w *world) ignoredCommand() string {
	if w.states == nil {
		return ""
	}
	tasks, err := w.client.Tasks(w.t.Context(), windlass.Filter{})
	if err != nil {
		return err.Error()
	}
	for _, task := range tasks {
		switch command, err := w.store.Get(w.t.Context(), prefix+"commands/"+task.ID); {
		case len(task.BlockedBy) > 0: // no node holds it
		case task.Status == windlass.StatusPaused:
			w.commandTask(task.ID, statemachine.Command{Message: statemachine.Run})
			return fmt.Sprintf("M56: %q is paused", task.ID)
		case err == nil && task.Status == windlass.StatusRunning:
			return fmt.Sprintf("M56: the command %s to %q is not carried out", command.Value, task.ID)
		}
	}
	return ""
}

// follow returns the messages that it receives, until it is told to stop.
func (h handler) follow(ctx context.Context, claim *windlass.Claim) error {
	messages := claim.Messages()
	for {
		select {
		case m := <-messages:
			h.process.pass()
			if m.Message != statemachine.Run && m.Message != statemachine.Checkpoint {
				return windlass.Message(m)
			}
		case <-ctx.Done():
			h.process.pass()
			return ctx.Err()
		}
	}
}

// save makes the remaining steps, and saves each.
func (h handler) save(ctx context.Context, claim *windlass.Claim) error {
	w := h.process.world
	stored, err := claim.Progress(ctx)
	if err != nil {
		return windlass.ErrRelease
	}
	done := 0
	if stored != nil {
		if err := json.Unmarshal(stored, &done); err != nil {
			return err
		}
	}
	// The task may have just been deleted with its progress; then nothing can be saved
	// any more.
	for begun := done; done < steps; {
		if err := h.wait(ctx, time.Second); err != nil {
			return err
		}
		task := w.asItBegan(claim)
		done++
		if err := claim.Checkpoint(ctx, done); err != nil {
			return windlass.ErrRelease
		}
		if known := w.states.known(task); done == begun+1 && begun < known {
			w.fail("V5: %q goes on with step %d, and %d were stored", claim.ID(), begun, known)
		}
		w.states.store(task, done)
	}
	return nil
}

// asItBegan identifies a task by its submission. A task that is submitted again begins
// again, and a submission that was deleted can arrive a second time, late.
func (w *world) asItBegan(claim *windlass.Claim) string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return fmt.Sprint(claim.ID(), claim.Spec().SubmittedAt, w.log.Created(claim.ID()))
}

func (s *states) known(task string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved[task]
}

func (s *states) store(task string, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[task] = max(s.saved[task], done)
}

// judgeStates checks that no fault of the broker ended a task (M54).
func (w *world) judgeStates() {
	for id := range w.expected {
		if w.isSetAside(id) {
			continue
		}
		state := w.log.Ended(id)
		if b := behaviourOf(id); (b.stays() || b == obedient) && state == statemachine.Completed {
			w.fail("M54: %q is %s, and its handler never said so", id, state)
		} else if b.stays() && state == statemachine.Failed {
			w.fail("M54: %q is %s, and its handler never fails", id, state)
		}
	}
}
