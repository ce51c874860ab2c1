package cli

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// bundleTasksMax limits the tasks that a bundle lists, bundleExplainedMax those of them
	// that wait or have had errors and that it explains one by one, as far as it comes within
	// bundleExplainedFor: each reads all tasks.
	bundleTasksMax     = 10_000
	bundleExplainedMax = 50
	bundleExplainedFor = 30 * time.Second
)

// bundleReadme is the text file in a bundle that says what is in it.
const bundleReadme = `Written by "windlass doctor --bundle", for whoever helps to find a fault.

doctor.txt      what doctor printed
doctor.json     the same
version.json    the program that wrote this
nodes.json      the nodes, their labels, limits and versions
cordons.json    the cordons
deaths.json     the deaths of nodes within the last hour, and the tasks that they held
types.json      the types of tasks, and which are paused
counts.json     how many tasks there are, by status
failures.json   the failed tasks by error
tasks.json      the tasks in order of their IDs, at most %d of them
explained.json  why up to %d of those do not run, or have had errors, and their histories: those
                that wait first, then those that run with errors, those that failed, and those
                that are not due
elections.json  the elections
errors.txt      what could not be read, if there was anything

If the broker did not answer, only the first three are there.

Not in it: properties, results, progress and output of tasks, and what changes have changed; but
an error may quote them, as that of a command does the last line that it printed.
In it: the names of nodes, tasks, types, tags and users, the address of the broker, and the texts
of errors and reasons. Look at these before you pass it on.
`

// bundle is what helps somebody else to find a fault: a compressed tar archive.
type bundle struct {
	at     time.Time
	tar    *tar.Writer
	failed bytes.Buffer
}

// add adds a file.
func (b *bundle) add(name string, content []byte) error {
	header := tar.Header{Name: "windlass-bundle/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: b.at}
	if err := b.tar.WriteHeader(&header); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

// addJSON adds a file with a value, or notes why that could not be read.
func (b *bundle) addJSON(name string, value any, err error) error {
	if err != nil {
		fmt.Fprintf(&b.failed, "%s: %v\n", name, err)
		return nil
	}
	content, err := view.EncodeJSON(value, "  ")
	if err != nil {
		return err
	}
	return b.add(name, content)
}

// writeBundle writes a bundle into a file that does not exist. store is nil if nothing can be
// read from the broker.
func (a *app) writeBundle(ctx context.Context, name string, c *checkup, store broker.Broker) error {
	var content, text bytes.Buffer
	zip := gzip.NewWriter(&content)
	b := &bundle{at: time.Now().Truncate(time.Second), tar: tar.NewWriter(zip)}
	err := errors.Join(
		b.add("README.txt", fmt.Appendf(nil, bundleReadme, bundleTasksMax, bundleExplainedMax)),
		c.table().write(&text), b.add("doctor.txt", text.Bytes()),
		b.addJSON("doctor.json", c, nil), b.addJSON("version.json", view.BuildVersion(), nil),
	)
	if err == nil && store != nil {
		err = a.bundleNamespace(ctx, b, store)
	}
	if err == nil && b.failed.Len() > 0 {
		err = b.add("errors.txt", b.failed.Bytes())
	}
	if err = cmp.Or(err, ctx.Err(), b.tar.Close(), zip.Close()); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content.Bytes())
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// bundleNamespace adds what is stored below the namespace.
func (a *app) bundleNamespace(ctx context.Context, b *bundle, store broker.Broker) error {
	client, err := windlass.NewClient(store, a.namespace)
	if err != nil {
		return err
	}
	nodes, nodesErr := client.Nodes(ctx)
	cordons, cordonsErr := operate.New(client).Cordons(ctx)
	deaths, deathsErr := operate.New(client).Deaths(ctx)
	types, typesErr := client.Types(ctx)
	counts, countsErr := client.Count(ctx, windlass.Filter{})
	failures, failuresErr := inspect.New(client).Failures(ctx, windlass.Filter{})
	tasks, tasksErr := client.Tasks(ctx, windlass.Filter{Limit: bundleTasksMax})
	elections, electionsErr := a.elections(ctx, store, nil)
	return errors.Join(
		b.addJSON("nodes.json", nodes, nodesErr), b.addJSON("cordons.json", cordons, cordonsErr), b.addJSON("deaths.json", deaths, deathsErr),
		b.addJSON("types.json", types, typesErr), b.addJSON("counts.json", counts, countsErr), b.addJSON("failures.json", failures, failuresErr),
		b.addJSON("tasks.json", tasks, tasksErr), b.addJSON("explained.json", explainSome(ctx, b, client, tasks), nil),
		b.addJSON("elections.json", elections, electionsErr),
	)
}

// explained is a task in explained.json.
type explained struct {
	inspect.Explanation
	History statemachine.History `json:"history"`
}

// explainRank orders what is explained, 0 for what is not.
func explainRank(t windlass.TaskInfo) int {
	switch {
	case t.Status == windlass.StatusCompleted, t.Status == windlass.StatusKilled, t.Status == windlass.StatusRunning && len(t.Errors) == 0:
		return 0
	case t.Status == windlass.StatusPending && t.NotBefore.After(time.Now()):
		return 4
	case t.Status == windlass.StatusFailed:
		return 3
	case t.Status == windlass.StatusRunning:
		return 2
	}
	return 1
}

// explainSome explains the first tasks that do not run, or have had errors.
func explainSome(ctx context.Context, b *bundle, client *windlass.Client, tasks []windlass.TaskInfo) []explained {
	all := []explained{}
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t windlass.TaskInfo) bool { return explainRank(t) == 0 })
	slices.SortStableFunc(tasks, func(a, b windlass.TaskInfo) int { return explainRank(a) - explainRank(b) })
	began := time.Now()
	for _, t := range tasks {
		if len(all) == bundleExplainedMax || time.Since(began) > bundleExplainedFor {
			break
		}
		e, err := inspect.New(client).Explain(ctx, t.ID)
		h, historyErr := inspect.New(client).History(ctx, t.ID)
		if errors.Is(historyErr, windlass.ErrNotFound) {
			historyErr = nil // it was never claimed
		}
		if err := cmp.Or(err, historyErr); err != nil {
			fmt.Fprintf(&b.failed, "explained.json: %v\n", err)
			continue
		}
		for i := range h.Entries {
			if strings.HasPrefix(h.Entries[i].Detail, "update, by ") {
				h.Entries[i].Detail, _, _ = strings.Cut(h.Entries[i].Detail, ": ") // then come values of properties
			}
		}
		all = append(all, explained{e, h})
	}
	return all
}
