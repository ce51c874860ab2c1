package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) electionCommand() *cobra.Command {
	return group("election", "List elections, and ask leaders to step down", a.electionListCommand(), a.electionResignCommand())
}

var electionHeading = []string{"ELECTION", "LEADER", "TOKEN", "IN LINE"}

func electionRow(v view.Election) []string {
	var waiting []string
	for _, c := range v.Candidates[1:] {
		waiting = append(waiting, c.Name)
	}
	const shown = 5
	if more := len(waiting) - shown; more > 0 {
		waiting = append(waiting[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	leader := v.Leader
	if v.Candidates[0].Resigning {
		leader += " (resigning)"
	}
	if since := v.Candidates[0].SilentSince; !since.IsZero() {
		leader += " (" + view.NotRenewed(since, time.Now()) + ")"
	}
	return []string{v.Name, leader, strconv.FormatInt(v.Token, 10), view.OrDash(strings.Join(waiting, ", "))}
}

func (a *app) electionListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List the leaders, and the candidates in the queue",
		Long: `List the elections that have candidates, or those named: the leader, its fencing token,
and the candidates in the queue, the next one first. Nodes with a retention elect the
one that applies it in the election _retention.

Exit code: 3 if one of those named has no candidate.`,
		ValidArgsFunction: a.completeElections,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withBroker(cmd.Context(), func(b broker.Broker) error {
				views, err := a.elections(cmd.Context(), b, args)
				if err != nil {
					return err
				}
				return a.print(views, func() table {
					if len(views) == 0 {
						return table{footer: "nobody stands in any election"}
					}
					return table{heading: electionHeading, rows: rowsOf(views, electionRow)}
				})
			})
		},
	}
	return a.outputFlag(cmd)
}

// elections are those named, or all.
func (a *app) elections(ctx context.Context, b broker.Broker, names []string) ([]view.Election, error) {
	for _, name := range names {
		if err := keys.CheckElectionName(name); err != nil {
			return nil, usageError{err}
		}
	}
	infos, err := election.List(ctx, b, a.namespace)
	if err != nil {
		return nil, err
	}
	views := make([]view.Election, len(infos))
	for i, info := range infos {
		views[i] = view.ElectionOf(info)
	}
	if len(names) == 0 {
		return views, nil
	}
	named := make([]view.Election, len(names))
	for i, name := range names {
		at := slices.IndexFunc(views, func(v view.Election) bool { return v.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("election %q: %w", name, election.ErrNoLeader)
		}
		named[i] = views[at]
	}
	return named, nil
}

func (a *app) completeElections(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withBroker(ctx, func(b broker.Broker) error {
			views, err := a.elections(ctx, b, nil)
			for _, v := range views {
				offer(v.Name)
			}
			return err
		})
	})
}

func (a *app) electionResignCommand() *cobra.Command {
	wait, timeout := true, waitDefault
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Ask the leader of an election to step down",
		Long: `Ask the leader of an election to step down and to queue up again, at the end. What
it runs as leader has the time to return that it would have at a loss of its session.
This waits until it has stepped down, unless --wait=false.

Exit code: 3 if the election has no candidate, 4 if the leader changed meanwhile, 1 if
it has not stepped down within --timeout; it may still do so later.`,
		Example:           `  windlass election resign reports`,
		Args:              exactArgs("NAME"),
		ValidArgsFunction: a.completeElections,
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return usagef("--timeout %v: must be positive", timeout)
			}
			return a.withBroker(cmd.Context(), func(b broker.Broker) error {
				v, err := a.resign(cmd.Context(), b, args[0], wait, timeout)
				if err != nil {
					return err
				}
				return a.print(v, func() table {
					return table{footer: resignedText(v, wait)}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until it has stepped down")
	cmd.Flags().DurationVar(&timeout, "timeout", waitDefault, "how long to wait")
	return a.outputFlag(cmd)
}

func resignedText(v view.Resigned, waited bool) string {
	asked, from := view.Printable(v.Asked), view.Printable(v.Election)
	switch {
	case !waited:
		return fmt.Sprintf("%s was asked to resign from %s", asked, from)
	case v.Leader == "":
		return fmt.Sprintf("%s has resigned from %s; nobody else stands", asked, from)
	}
	return fmt.Sprintf("%s has resigned from %s; the leader is %s", asked, from, view.Printable(v.Leader))
}

func (a *app) resign(ctx context.Context, b broker.Broker, name string, wait bool, timeout time.Duration) (view.Resigned, error) {
	asked, err := election.RequestResign(ctx, b, a.namespace, name)
	v := view.Resigned{Election: name, Asked: asked.Leader, Token: asked.Token}
	if err != nil || !wait {
		return v, err
	}
	// Not a deadline: the broker may report that first, which looks like trouble.
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(timeout, cancel).Stop()
	bar := a.newProgress("waiting for "+asked.Leader+" to step down", 0)
	defer bar.end()
	var silent time.Time
	for now, err := range election.Observe(limited, b, a.namespace, name) {
		switch silent = now.SilentSince; {
		case err != nil:
			a.say(bar, "windlass: "+err.Error())
		case now.Token != asked.Token:
			v.Leader = now.Leader
			return v, nil
		case !silent.IsZero():
			a.say(bar, fmt.Sprintf("windlass: %s is %s: it is dead or cut off", view.Printable(asked.Leader), view.NotRenewed(silent, time.Now())))
		}
	}
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	return v, errors.New(v.Late(timeout, silent, time.Now()))
}

// leaderChange is a line of "elect --observe". Its JSON is stable.
type leaderChange struct {
	Time     time.Time `json:"time"`
	Election string    `json:"election"`
	// Leader is empty, and the token of the term zero, when nobody leads.
	Leader string `json:"leader"`
	Token  int64  `json:"token"`
	// SilentSince is when the leader last renewed its session, if that is too long ago: it is dead
	// or cut off.
	SilentSince time.Time `json:"silent_since,omitzero"`
	// Problem is set, and the leader not known, once the broker cannot be followed. A line
	// without it follows when it can be again.
	Problem string `json:"problem,omitempty"`
}

// observeElection prints a line for each change of leader, and one when that is not known.
func (a *app) observeElection(ctx context.Context, name string) error {
	return a.withBroker(ctx, func(b broker.Broker) error {
		lines := lineWriter{app: a, heading: []string{"TIME", "ELECTION", "LEADER", "TOKEN"}, widths: []int{20, 16, 24, 0}}
		err := watch(lines, leaderChanges(name, election.Observe(ctx, b, a.namespace, name)), func(c leaderChange) (any, []string) {
			leader, token := view.OrDash(c.Leader), view.OrDash(strings.TrimPrefix(strconv.FormatInt(c.Token, 10), "0"))
			switch {
			case c.Problem != "":
				leader = "not known"
			case !c.SilentSince.IsZero():
				leader += " (" + view.NotRenewed(c.SilentSince, c.Time) + ")"
			}
			return c, []string{c.Time.Format(time.RFC3339), name, leader, token}
		})
		return cmp.Or(err, ctx.Err())
	})
}

// leaderChanges yields the lines of an election that is followed: besides who leads the first of
// several errors in a row.
func leaderChanges(name string, observed iter.Seq2[election.Leadership, error]) iter.Seq2[leaderChange, error] {
	return func(yield func(leaderChange, error) bool) {
		known := true
		for now, err := range observed {
			c := leaderChange{Time: time.Now().UTC().Truncate(time.Millisecond), Election: name, Leader: now.Leader, Token: now.Token, SilentSince: now.SilentSince}
			if err != nil {
				c.Problem = err.Error()
			}
			told := err == nil || known && exitCode(err) != exitUsage
			if known = err == nil; told && !yield(c, nil) || !known && !yield(c, err) {
				return
			}
		}
	}
}
