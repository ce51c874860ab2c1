package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// checkup is what the doctor prints. Its JSON is stable.
type checkup struct {
	Broker    string         `json:"broker"`
	Namespace string         `json:"namespace"`
	Checks    []doctor.Check `json:"checks"`
	// Fixed is what --fix did or left alone.
	Fixed    []doctor.Fixed `json:"fixed"`
	Problems int            `json:"problems"`
	Warnings int            `json:"warnings"`
}

// The checks of the broker, beside those of package doctor.
const (
	checkBroker  = "broker"
	checkQuorum  = "quorum"
	checkVersion = "version"
	checkSpace   = "space"
	checkLeases  = "leases"
)

// allChecks are in the order in which they are printed.
var allChecks = []string{
	checkBroker, checkQuorum, checkVersion, checkSpace, checkLeases, doctor.CheckRoundTrip, doctor.CheckPermissions,
	doctor.CheckLayout, doctor.CheckNodes, doctor.CheckClaims, doctor.CheckDuplicates, doctor.CheckTasks, doctor.CheckRuns, doctor.CheckValues,
	doctor.CheckLeftovers, doctor.CheckContents,
}

func (a *app) doctorCommand() *cobra.Command {
	var fix bool
	var ttl time.Duration
	var bundle string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the broker and the namespace, and say what to do",
		Long: `Check the broker (reachable, quorum, version, space, leases, round trip,
permissions) and everything below the namespace: layout, nodes, orphaned claims,
duplicates, tasks that are stuck or get nowhere, values that cannot be read, and
what takes the space.

It looks a second time, up to a little more than a session's TTL later, only where
something that it found may pass by itself. It changes nothing, except with --fix,
and then only what needs no decision: it frees a full etcd's unused space and disarms the alarm
(this needs the rights of etcd's root), ends the sessions of dead processes that
nobody has ended, deletes owner keys that have no session, and removes what is left
of tasks that have ended. What changes meanwhile is left
alone.

With --bundle it also writes what helps somebody else to find a fault into a compressed tar
archive: what it found, the nodes and their deaths, the tasks, why those that wait
do not run, and their histories. Properties, results, progress and output are not in it, but
for what errors quote of them, such as the last line that a command printed.

Exit codes: 0 no problem was found, warnings allowed; 1 there are problems, or
the bundle could not be written; 5 the broker does not answer or has no quorum.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			space, err := a.space()
			if err := cmp.Or(checkSessionTTL(ttl), err); err != nil {
				return err
			}
			if _, err := os.Lstat(bundle); bundle != "" && err == nil {
				return usagef("--bundle %q: it exists", bundle)
			}
			return a.doctor(cmd.Context(), space, ttl, fix, bundle)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "mend what needs no decision")
	cmd.Flags().DurationVar(&ttl, "session-ttl", session.TTLDefault, "session TTL of the nodes, to judge times by, 5s to 300s")
	cmd.Flags().StringVar(&bundle, "bundle", "", "write what helps to find a fault into this new file, such as windlass.tar.gz")
	return a.outputFlag(cmd)
}

// doctor examines, prints, writes a bundle unless its name is empty, and returns the error
// for the exit code.
func (a *app) doctor(ctx context.Context, space keys.Space, ttl time.Duration, fix bool, bundle string) (err error) {
	began := time.Now()
	c := checkup{Broker: a.broker.address, Namespace: space.Root(), Fixed: []doctor.Fixed{}}
	store, failed := a.broker.open(ctx)
	switch {
	case failed == nil:
		defer func() { err = errors.Join(err, store.Close()) }()
		d := &doctor.Doctor{Broker: store, Space: space, SessionTTL: ttl, Waiting: func(d time.Duration, why string) {
			fmt.Fprintf(a.err, "windlass: looking again in %v: %s\n", d.Round(time.Second), why)
		}}
		failed = c.examine(ctx, d, fix)
	case unreachable(failed):
		c.Checks = a.unreached(ctx, failed, time.Since(began))
	default:
		return failed // the command line makes no sense, or we are not let in
	}
	if failed != nil {
		c.Checks = append(c.Checks, notChecked(c.Checks)...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.complete()
	if err := a.print(c, c.table); err != nil {
		return err
	}
	if bundle != "" {
		readable := store
		if failed != nil {
			readable = nil
		}
		err := a.writeBundle(ctx, bundle, &c, readable)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return errors.Join(failed, fmt.Errorf("--bundle: %v", err)) // no permission here is none of the broker
		}
		fmt.Fprintf(a.err, "windlass: wrote %s; its README.txt says what is in it\n", bundle)
	}
	switch {
	case failed != nil:
		return failed
	case c.Problems > 0:
		return fmt.Errorf("something is wrong: %d problem(s) and %d warning(s)", c.Problems, c.Warnings)
	}
	return nil
}

func unreachable(err error) bool { return exitCode(err) == exitUnavailable }

func (c *checkup) examine(ctx context.Context, d *doctor.Doctor, fix bool) error {
	began := time.Now()
	if _, err := d.Broker.Get(ctx, d.Space.Layout()); err != nil && !errors.Is(err, broker.ErrNotFound) && !errors.Is(err, broker.ErrPermission) {
		c.Checks = append(c.Checks, brokerProblem(err.Error()))
		c.members(ctx, d.Broker)
		return err
	}
	c.Checks = append(c.Checks, doctor.Check{
		Name: checkBroker, Status: doctor.OK, Found: fmt.Sprintf("%s answers, in %v", c.address(d.Broker), time.Since(began).Round(10*time.Microsecond)),
	})
	if fix {
		// First, so that the report has the state after it.
		if err := c.fix(ctx, d); err != nil {
			return err
		}
	}
	c.members(ctx, d.Broker)
	if e, ok := d.Broker.(*etcd.Broker); ok {
		c.Checks = append(c.Checks, judgeLeases(e.Leases(ctx, leasesExamined)))
	}
	for _, check := range []func(context.Context) (doctor.Check, error){d.RoundTrip, d.Permissions} {
		found, err := check(ctx)
		if err != nil {
			return err
		}
		c.Checks = append(c.Checks, found)
	}
	found, err := d.Namespace(ctx)
	if errors.Is(err, broker.ErrPermission) {
		c.Checks = append(c.Checks, notChecked(c.Checks)...) // the check of permissions says why
		return nil
	}
	c.Checks = append(c.Checks, found...)
	return err
}

func (c *checkup) address(b broker.Broker) string {
	if named, ok := b.(interface{ Address() string }); ok {
		c.Broker = named.Address()
	}
	return c.Broker
}

// members checks what the members report.
func (c *checkup) members(ctx context.Context, b broker.Broker) {
	if z, ok := b.(*zookeeper.Broker); ok {
		if members, err := z.Members(ctx); err == nil {
			c.Checks = append(c.Checks, judgeEnsemble(members), judgeEnsembleVersion(members))
		}
		return
	}
	e, ok := b.(*etcd.Broker)
	if !ok {
		return
	}
	members, err := e.Members(ctx)
	if err != nil {
		c.Checks = append(c.Checks, doctor.Check{Name: checkQuorum, Status: doctor.Unknown, Found: err.Error()})
		return
	}
	c.Checks = append(c.Checks, judgeQuorum(members), judgeVersion(members), judgeSpace(members))
}

// fix mends the namespace first, whose deletions make space to be freed.
func (c *checkup) fix(ctx context.Context, d *doctor.Doctor) error {
	fixed, err := d.Fix(ctx)
	c.Fixed = append(c.Fixed, fixed...)
	switch {
	case err != nil && unreachable(err):
		return err
	case err != nil && len(fixed) == 0:
		c.Fixed = append(c.Fixed, doctor.Fixed{What: "mend the namespace", Why: err.Error()})
	}
	e, ok := d.Broker.(*etcd.Broker)
	if !ok {
		return nil
	}
	members, err := e.Members(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(members, func(m etcd.Member) bool { return slices.Contains(m.Alarms, etcd.AlarmNoSpace) }) {
		return nil
	}
	f := doctor.Fixed{What: "forget the broker's history, free its unused space, and disarm the alarm", Done: true}
	if err := e.Reclaim(ctx); err != nil {
		f.Done, f.Why = false, err.Error()
	}
	c.Fixed = append(c.Fixed, f)
	return nil
}

func brokerProblem(found string) doctor.Check {
	return doctor.Check{Name: checkBroker, Status: doctor.Problem, Found: found, Do: "look at the broker and the network"}
}

// unreached are the checks of a broker to which there is no connection.
func (a *app) unreached(ctx context.Context, failed error, tried time.Duration) []doctor.Check {
	b := brokerProblem(failed.Error())
	if tried > time.Second && !errors.Is(failed, broker.ErrUnavailable) {
		b.Found += fmt.Sprintf(" (tried for %v)", tried.Round(time.Millisecond))
	}
	if errors.Is(failed, errNoDev) {
		b.Do = `start "windlass dev", or name a broker with --broker`
	}
	quorum, err := a.quorumOfUnreached(ctx)
	if err != nil {
		return []doctor.Check{b}
	}
	return []doctor.Check{b, quorum}
}

// quorumOfUnreached asks the members of an external broker one by one.
func (a *app) quorumOfUnreached(ctx context.Context) (doctor.Check, error) {
	address := a.broker.address
	if strings.HasPrefix(address, zookeeper.Scheme) {
		config, err := a.broker.zookeeperConfig("--broker", address)
		if err != nil {
			return doctor.Check{}, err
		}
		members, err := zookeeper.Members(ctx, config)
		return judgeEnsemble(members), err
	}
	endpoints, external := strings.CutPrefix(address, etcdScheme)
	if !external {
		return doctor.Check{}, errNoDev
	}
	config, err := a.broker.etcdConfig(endpoints)
	if err != nil {
		return doctor.Check{}, err
	}
	members, err := etcd.Members(ctx, config)
	return judgeQuorum(members), err
}

// notChecked are the checks that are missing.
func notChecked(done []doctor.Check) (missing []doctor.Check) {
	for _, name := range allChecks {
		if !slices.ContainsFunc(done, func(c doctor.Check) bool { return c.Name == name }) {
			missing = append(missing, doctor.Check{Name: name, Status: doctor.Unknown, Found: "not checked"})
		}
	}
	return missing
}

// complete puts all in order and counts.
func (c *checkup) complete() {
	slices.SortStableFunc(c.Checks, func(a, b doctor.Check) int {
		return slices.Index(allChecks, a.Name) - slices.Index(allChecks, b.Name)
	})
	for _, check := range c.Checks {
		switch check.Status {
		case doctor.Problem:
			c.Problems++
		case doctor.Warning:
			c.Warnings++
		}
	}
}

// unknown returns the names of the checks that are unknown for one reason.
func (c *checkup) unknown(why string) string {
	var names []string
	for _, check := range c.Checks {
		if check.Status == doctor.Unknown && check.Found == why {
			names = append(names, check.Name)
		}
	}
	if len(names) > unknownNamed {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return strings.Join(names, ", ")
}

// unknownNamed is how many unknown checks one line names.
const unknownNamed = 2

// table has a line for each finding and each check without one, and below it the details and the
// advice. Checks that are unknown for one reason share a line.
func (c *checkup) table() table {
	t := table{heading: []string{"STATUS", "CHECK", "FOUND"}}
	row := func(status, check, found string) { t.rows = append(t.rows, []string{status, check, found}) }
	for _, f := range c.Fixed {
		if f.Done {
			row("done", "fix", f.What)
		} else {
			row("not done", "fix", f.What+": "+f.Why)
		}
	}
	shown := ""
	for _, check := range c.Checks {
		switch {
		case check.Status != doctor.Unknown || check.Do != "" || len(check.Details) > 0:
			row(string(check.Status), check.Name, check.Found)
		case check.Found != shown:
			shown = check.Found
			row(string(check.Status), c.unknown(shown), shown)
		}
		if check.Status == doctor.OK {
			continue
		}
		for _, detail := range check.Details {
			row("", "", "  "+detail)
		}
		if check.Do != "" {
			row("", "", "> "+check.Do)
		}
	}
	return t
}
