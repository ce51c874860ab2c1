package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// leadershipError says that a leadership ended while the command ran.
type leadershipError struct{ error }

func (e leadershipError) Unwrap() error { return e.error }

var (
	// errNotElected ends the wait for the first term.
	errNotElected = errors.New("another candidate leads")
	// errCommandEnded ends a term whose command has ended with code 0.
	errCommandEnded = errors.New("the command has ended")
)

const electionTask = "election:"

// leaderLook is the time between two questions who leads.
const leaderLook = 500 * time.Millisecond

// leading runs the command of "elect" in one term after the other.
type leading struct {
	app      *app
	flags    electFlags
	commands *supervised
	log      *slog.Logger
	giveUp   context.CancelCauseFunc
	// first ends the limited wait for the first term.
	first context.CancelFunc
	// term is the token of the term in which the command may run, zero for none.
	term atomic.Int64
	// decided by the first term, which sets elected, or by the end of the wait for it.
	decided sync.Once
	elected bool
	// taken is set when somebody else stood under the candidate's name.
	taken atomic.Bool
}

func (l *leading) events() election.Events {
	return election.Events{
		Elected:   func(t election.Term) { l.log.Info("elected", "token", t.Token) },
		Unelected: func(t election.Term, cause error) { l.log.Info("leads no longer", "token", t.Token, "cause", cause) },
		Leader: func(name string) {
			l.taken.Store(false) // it is in the queue itself
			l.log.Info("who leads", "leader", name)
		},
		Error: func(err error) {
			l.log.Warn("trouble that is being dealt with", "error", err)
			if errors.Is(err, election.ErrNameTaken) {
				l.taken.Store(true)
			}
		},
	}
}

// overdue reports, for exitIfOverdue, whether the term of now still runs when it is asked.
// A process that was frozen for long may lead again by then.
func (l *leading) overdue() func() []string {
	late := l.term.Load()
	return func() []string {
		if late != 0 && l.term.Load() == late {
			return []string{"election " + l.flags.name}
		}
		return nil
	}
}

// lead leads until the command has ended by itself or, with --once, the leadership has.
func (l *leading) lead(ctx context.Context, e *election.Election) error {
	var impatience sync.WaitGroup
	defer impatience.Wait()
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	l.giveUp = giveUp
	limited, first := context.WithCancel(waiting)
	defer first()
	l.first = first
	if l.flags.limited {
		impatience.Go(func() { l.limitWait(limited, e) })
	}
	for {
		err := e.Lead(waiting, l.run)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errCommandEnded):
			return nil
		case is[leadershipError](err) && !l.flags.once: // it stands again
			if err := e.Start(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// limitWait gives up the wait for the first term after --wait, once another candidate is
// known to lead that has not died. It waits for that knowledge for another TTL; for the end of
// a leader that has died, as long as its session lasts.
func (l *leading) limitWait(ctx context.Context, e *election.Election) {
	if !pause.For(ctx, l.flags.wait) {
		return
	}
	decide := func(err error) {
		l.first()
		l.decided.Do(func() {
			l.giveUp(fmt.Errorf("election %q: not elected within %v: %w", l.flags.name, l.flags.wait, err))
		})
	}
	before := int64(-1) // the token of the term that was learned of last
	for learned := time.Now(); ctx.Err() == nil; pause.For(ctx, leaderLook) {
		now, own, err := e.LeaderAlive(ctx)
		if err == nil && now.Token != before {
			before, learned = now.Token, time.Now()
		}
		others := err == nil && now.Leader != "" && !own
		late := time.Since(learned) > l.flags.sessionTTL
		switch {
		case (others || late) && l.taken.Load():
			decide(fmt.Errorf("%w: %q", election.ErrNameTaken, l.flags.candidate))
		case others:
			decide(fmt.Errorf("%w: %q", errNotElected, now.Leader))
		case late:
			decide(fmt.Errorf("who leads could not be learned: %w", cmp.Or(err, broker.ErrUnavailable)))
		}
	}
}

// run runs the command in one term. Its error, which is never nil, says why the term, or
// everything, has ended.
func (l *leading) run(ctx context.Context, term election.Term) error {
	l.decided.Do(func() { l.elected = true })
	l.first()
	if !l.elected {
		<-ctx.Done() // it is about to end
		return context.Cause(ctx)
	}
	l.term.Store(term.Token)
	defer l.term.Store(0)
	environ := append(os.Environ(), "WINDLASS_ELECTION="+term.Election, "WINDLASS_CANDIDATE="+term.Candidate,
		"WINDLASS_TERM="+strconv.FormatInt(term.Token, 10))
	result, _, err := l.commands.run(ctx, electionTask+term.Election, term.Token, environ, false, func(s *streams) error { return s.take(l.app.in) })
	cause := context.Cause(ctx)
	switch {
	case cause != nil:
		return l.over(cause)
	case err != nil:
		return err
	case result.Why == exectask.WhyDeadline: // this process has not noticed yet
		return l.over(session.ErrDeadline)
	case result.Why != exectask.WhyExited:
		return l.over(session.ErrLost)
	case !result.OK():
		return newCommandError("the command", result)
	}
	return errCommandEnded
}

// over handles the end of a leadership while the command runs.
func (l *leading) over(cause error) error {
	err := leadershipError{fmt.Errorf("the leadership in %q has ended: %w", l.flags.name, cause)}
	switch {
	case l.flags.once:
		l.giveUp(err)
	case !errors.Is(cause, context.Canceled):
		fmt.Fprintf(l.app.err, "windlass: %v; standing again\n", err)
	}
	return err
}
