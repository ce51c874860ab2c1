package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// Doctor examines one namespace. Its methods return errors of package broker if the broker
// does not answer; all other defects are in the checks.
type Doctor struct {
	// Broker is examined; Space is the namespace.
	Broker broker.Broker
	Space  keys.Space
	// SessionTTL is the one to judge times by. Zero means session.TTLDefault.
	SessionTTL time.Duration
	// Waiting, if set, is called before the wait for a second look, with its reason.
	Waiting func(d time.Duration, why string)
}

func (d *Doctor) ttl() time.Duration { return cmp.Or(d.SessionTTL, session.TTLDefault) }

// The checks of a namespace.
const (
	// CheckLayout: the version of the layout.
	CheckLayout = "layout"
	// CheckNodes: the registrations of nodes.
	CheckNodes = "nodes"
	// CheckClaims: claims without a node.
	CheckClaims = "claims"
	// CheckDuplicates: keys that exclude each other.
	CheckDuplicates = "duplicates"
	// CheckTasks: tasks that cannot run.
	CheckTasks = "tasks"
	// CheckRuns: tasks that run again and again and get nowhere.
	CheckRuns = "runs"
	// CheckValues: values that cannot be read.
	CheckValues = "values"
	// CheckLeftovers: keys whose task or node is gone.
	CheckLeftovers = "leftovers"
	// CheckContents: what the keys take.
	CheckContents = "contents"
)

// secondLook is the wait for tasks to be claimed. Nodes leave a task to each other for less
// time.
const secondLook = 5 * time.Second

// Namespace checks everything below the namespace. It looks a second time only if
// something that it found may pass by itself.
func (d *Doctor) Namespace(ctx context.Context) ([]Check, error) {
	now, err := read(ctx, d.Broker, d.Space)
	if err != nil {
		return nil, err
	}
	layout, known := now.checkLayout()
	if !known {
		checks := []Check{layout}
		for _, name := range []string{CheckNodes, CheckClaims, CheckDuplicates, CheckTasks, CheckRuns, CheckValues, CheckLeftovers, CheckContents} {
			checks = append(checks, Check{Name: name, Status: Unknown, Found: "not checked: the layout is newer than this version knows"})
		}
		return checks, nil
	}
	before, at := now, time.Now()
	if wait, why := d.doubts(now, at); wait > 0 {
		if d.Waiting != nil {
			d.Waiting(wait, why)
		}
		if !pause.For(ctx, wait) {
			return nil, ctx.Err()
		}
		if now, err = read(ctx, d.Broker, d.Space); err != nil {
			return nil, err
		}
		at = time.Now()
	}
	groups, err := d.unspread(ctx, now, at)
	if err != nil {
		return nil, err
	}
	return slices.Concat(
		[]Check{layout}, now.checkNodes(before, at), now.checkClaims(before), now.checkDuplicates(),
		now.checkTasks(before, groups, at), now.checkRuns(), now.checkValues(), now.checkLeftovers(), []Check{now.checkContents()},
	), nil
}

// doubts returns how long to wait for a second look, and why; zero if the first one is
// enough.
func (d *Doctor) doubts(s *snapshot, now time.Time) (wait time.Duration, why string) {
	claims, silent := s.claimed(), s.silent(now)
	switch {
	case len(silent) > 0:
		return d.longestTTL(s, silent)*11/10 + time.Second, "sessions that nobody renews should be ended by those who are there"
	case slices.ContainsFunc(claims, s.unbacked):
		return d.longestTTL(s, nil)*11/10 + time.Second, "claims whose node is gone should go with their sessions"
	case slices.ContainsFunc(claims, func(t *mirror.Task) bool { return t.Session != 0 && !t.Exists() }):
		return d.ttl(), "handlers of tasks that were deleted should return"
	case slices.ContainsFunc(s.live(), func(t *mirror.Task) bool { return s.waits(t, now) }):
		return secondLook, "tasks that nobody holds should be claimed"
	}
	return 0, ""
}
