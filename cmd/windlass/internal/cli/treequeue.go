package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

type queueFlags struct {
	line     view.QueueJob
	spec     specFlags
	file     string
	data     string
	dataFile string
	under    tree.Pattern
	// nameErr is the first error of a template of a name that was used.
	nameErr error
}

func (a *app) treeQueueCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "queue NAME --type TYPE [flags] | queue -f FILE",
		Short: "Queue a job, one below each of several, or a file of jobs",
		Long: `Queue a job at the root of the tree, below the job of --parent, or below every job
whose own name and type match --under-name and --under-type. These are regular
expressions that have to match the whole; one that is not given matches everything.

If the job is pending, this replaces it; if it has ended, it becomes pending again, and
the jobs below it wait for it. If it is running, this is a conflict, unless --requeue
makes it run again afterwards.

--name-template makes the name from those of the job above and of the job, as a
template of Go: {{.Parent}} and {{.Child}}.

A file has JSON objects, on a line each, pretty-printed, or in an array, of which only "name" and "type" are needed:

  {"name":"a","type":"exec","data":{"command":["echo","a"],"restart":"on-failure"},"parent":"root_exec",
   "under":{"name":"request.*","type":"alpha"},"name_template":"{{.Parent}}-{{.Child}}",
   "requeue":false,"cascade":false,"priority":0,"needs":["b_exec"],"on_failure":"skip",
   "timeout":"30m","retry":{"errors":3},"not_before":"2026-01-02T15:04:05Z"}

It is checked as a whole before anything is queued. Lines can be in any order, except
that one with "under" or "cascade" finds the jobs of the lines before it. A job that
waits for a refused one of the file is refused as well.

Exit code 3 if there is no job to queue it under, 4 if it is worked on.`,
		Example: `  windlass tree queue requestFile --type alpha --data '{"url":"http://…"}'
  windlass tree queue downloadFile --type beta --parent requestFile_alpha --on-failure skip
  windlass tree queue check --type exec --under-type beta --data-file check.json \
    --name-template '{{.Parent}}-{{.Child}}'
  windlass tree queue -f jobs.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			requests, err := a.queueRequests(cmd, args, &f)
			if err != nil {
				return err
			}
			return a.withTree(cmd.Context(), func(t *tree.Tree, c *windlass.Client) error {
				var queued []tree.Queued
				if f.file != "" {
					queued, err = a.queueFile(cmd.Context(), t, &f, requests)
				} else {
					queued, err = a.queue(cmd.Context(), t, &f, requests[0])
				}
				a.warnDoubtsOfJobs(cmd.Context(), c, queued)
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "file with JSON objects, on a line each, or in an array; - for standard input")
	flags.StringVar(&f.line.Type, "type", "", "type of the job, which names its handler")
	flags.StringVar(&f.data, "data", "", "data of the job, as JSON")
	flags.StringVar(&f.dataFile, "data-file", "", "file with the data, as JSON; - for standard input")
	flags.StringVar(&f.line.Parent, "parent", "", "path of the job to queue it under")
	flags.StringVar(&f.under.Name, "under-name", "", "queue one under every job whose name matches this expression")
	flags.StringVar(&f.under.Type, "under-type", "", "queue one under every job whose type matches this expression")
	flags.StringVar(&f.line.NameTemplate, "name-template", "", "template of the name, of {{.Parent}} and {{.Child}}")
	flags.BoolVar(&f.line.Requeue, "requeue", false, "run a job that is worked on again, once its run has ended")
	flags.BoolVar(&f.line.Cascade, "cascade", false, "run those below again as well that have ended")
	f.spec.register(cmd)
	a.completeNames(cmd)
	_ = cmd.RegisterFlagCompletionFunc("parent", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.completePaths(cmd, nil, prefix)
	})
	return a.outputFlag(cmd)
}

// queueRequests reads the jobs from the file or the arguments, and validates them.
func (a *app) queueRequests(cmd *cobra.Command, args []string, f *queueFlags) ([]tree.Request, error) {
	if f.file != "" {
		if err := checkFileAlone(cmd, args, f.file); err != nil {
			return nil, err
		}
		return a.readJobs(f)
	}
	if len(args) != 1 {
		return nil, usagef("%s needs one NAME, or -f FILE", cmd.CommandPath())
	}
	flags, line := cmd.Flags(), f.line
	line.Name = args[0]
	if flags.Changed("under-name") || flags.Changed("under-type") {
		line.Under = &f.under
	}
	var err error
	if line.Spec, err = f.spec.line(flags.Changed); err != nil {
		return nil, err
	}
	switch {
	case flags.Changed("parent") && line.Parent == "":
		return nil, usagef(`--parent "": must not be empty`) // a variable of a script was
	case flags.Changed("data") && f.data == "":
		return nil, usagef(`--data "": must be JSON`) // as above
	case line.Parent != "" && line.Under != nil:
		return nil, usagef("--parent and --under-name or --under-type exclude each other")
	case f.data != "" && f.dataFile != "":
		return nil, usagef("--data and --data-file exclude each other")
	case f.dataFile != "":
		if line.Data, err = a.readData(f.dataFile); err != nil {
			return nil, err
		}
	default:
		line.Data = json.RawMessage(f.data)
	}
	r, err := f.request(line)
	return []tree.Request{r}, err
}

// readData reads a file of data, as JSON, or standard input for -.
func (a *app) readData(name string) (json.RawMessage, error) {
	in, err := a.openFile(name)
	if err != nil {
		return nil, usagef("--data-file %s: %w", name, err)
	}
	defer in.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(in, windlass.PropsBytesMax+1))
	if err == nil && len(data) > windlass.PropsBytesMax {
		err = fmt.Errorf("has more than %d bytes", windlass.PropsBytesMax)
	}
	if err != nil {
		return nil, usagef("--data-file %s: %w", name, err)
	}
	return bytes.TrimSpace(data), nil
}

// request validates a line. A template of its name may still fail when it is used.
func (f *queueFlags) request(l view.QueueJob) (tree.Request, error) {
	r := l.Request()
	if l.NameTemplate != "" {
		name, err := nameTemplate(l.NameTemplate)
		if err != nil {
			return r, err
		}
		if _, err := name("parent", l.Name); err != nil {
			return r, err
		}
		r.NameOf = func(parent, child string) string {
			made, err := name(parent, child)
			f.nameErr = cmp.Or(f.nameErr, err)
			return made
		}
	}
	err := errors.Join(r.Validate(), checkExec(windlass.Submission{Spec: windlass.Spec{Type: l.Type, Retry: r.Spec.Retry}, Props: r.Data}))
	return r, errors.Join(f.nameErr, err)
}

func nameTemplate(text string) (func(parent, child string) (string, error), error) {
	t, err := template.New("name").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, usagef("name template %q: %w", text, err)
	}
	return func(parent, child string) (string, error) {
		var b strings.Builder
		if err := t.Execute(&b, struct{ Parent, Child string }{parent, child}); err != nil {
			return "", usagef("name template %q: %w", text, err)
		}
		return b.String(), nil
	}, nil
}

func (a *app) readJobs(f *queueFlags) ([]tree.Request, error) {
	var requests []tree.Request
	err := a.readObjects(f.file, "queued", func(_ int, content []byte) error {
		var l view.QueueJob
		if err := decodeStrictly(content, &l); err != nil {
			return err
		}
		r, err := f.request(l)
		requests = append(requests, r)
		return err
	})
	return requests, err
}

// queue queues one request and lists the jobs that it has changed.
func (a *app) queue(ctx context.Context, t *tree.Tree, f *queueFlags, r tree.Request) ([]tree.Queued, error) {
	queued, err := t.Queue(ctx, r)
	if f.nameErr != nil {
		return nil, f.nameErr
	}
	err = requeueable(err)
	if len(queued) == 0 && err != nil {
		return nil, err
	}
	queued = append([]tree.Queued{}, queued...) // [] in JSON for none
	printed := a.print(queued, func() table {
		return table{heading: []string{"PATH", "EFFECT"}, rows: rowsOf(queued, func(q tree.Queued) []string {
			return []string{string(q.Path), string(q.Effect)}
		})}
	})
	return queued, errors.Join(printed, err)
}

// warnDoubtsOfJobs says what is probably not meant of jobs that were queued.
func (a *app) warnDoubtsOfJobs(ctx context.Context, c *windlass.Client, queued []tree.Queued) {
	if len(queued) == 0 {
		return
	}
	jobs := make([]windlass.Submission, len(queued))
	for i, q := range queued {
		jobs[i] = windlass.Submission{ID: q.ID, Spec: windlass.Spec{Type: q.Path.Type(), Needs: q.Needs}}
	}
	warnings, _ := inspect.New(c).Warnings(ctx, jobs) // who cannot read them has been told of worse
	a.warn(warnings...)
}

func requeueable(err error) error {
	return withHint(err, windlass.ErrWorking, `--requeue, or "requeue":true in a file, runs it again afterwards.`)
}

// queueFile queues the lines of a file in their order.
func (a *app) queueFile(ctx context.Context, t *tree.Tree, f *queueFlags, requests []tree.Request) ([]tree.Queued, error) {
	bar := a.newProgress("queueing", len(requests))
	f.nameErr = nil
	queued, failed, err := t.QueueInTurn(meter.With(ctx, bar.set), requests...)
	bar.end()
	if err != nil {
		return nil, usagef("%s: %w; nothing was queued", f.file, err)
	}
	failed = view.CausesFirst(failed)
	sum := view.QueuedOf(queued, failed)
	err = a.print(sum, func() table {
		t := table{rows: [][]string{{"queued", strconv.Itoa(sum.Queued)}}}
		for _, effect := range []windlass.Effect{windlass.EffectCreated, windlass.EffectUpdated, windlass.EffectRerun, windlass.EffectRequeued} {
			if n := sum.Effects[effect]; n > 0 {
				t.add("  "+string(effect), strconv.Itoa(n))
			}
		}
		addFailures(&t, sum.Failed, sum.Errors)
		return t
	})
	if len(failed) > 0 {
		first := cmp.Or(f.nameErr, failed[0])
		err = errors.Join(err, fmt.Errorf("%d failed; the first: %w", sum.Failed, requeueable(first)))
	}
	return queued, errors.Join(err, ctx.Err())
}
