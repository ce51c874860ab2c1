package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// worker runs the jobs of a node. Every handler only reads the sources and leaves a
// result, so it does no harm that a job runs twice when its node dies. What a job
// leaves is at most windlass.ResultBytesMax, which is some 2,000 files in one folder;
// with more its job fails, and says so.
type worker struct{ jobs *tree.Tree }

func (w worker) handlers() map[string]windlass.NewHandler {
	return map[string]windlass.NewHandler{
		typeList: windlass.HandlerFunc(w.list), typePackage: windlass.HandlerFunc(w.listPackage),
		typeHash: windlass.HandlerFunc(w.hash), typeMerge: windlass.HandlerFunc(w.merge), typeReport: windlass.HandlerFunc(w.report),
	}
}

// listed is the result of the list job.
type listed struct {
	Folders int `json:"folders"`
	Jobs    int `json:"jobs"`
}

// list finds all folders and queues the jobs for them.
func (w worker) list(ctx context.Context, c *windlass.Claim) error {
	d, err := dataOf(c)
	if err != nil {
		return err
	}
	found, err := walk(os.DirFS(d.Root))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return windlass.Permanent(errors.New("there are no Go files in " + d.Root))
	}
	queued, err := queueAll(ctx, w.jobs, d.Root, found)
	if errors.As(err, new(*windlass.BadInputError)) { // such as a path that is too long for a name
		return windlass.Permanent(err)
	} else if err != nil {
		return err
	}
	return leave(c, listed{Folders: len(found), Jobs: queued})
}

// listPackage lists the files of one folder.
func (w worker) listPackage(_ context.Context, c *windlass.Claim) error {
	d, err := dataOf(c)
	if err != nil {
		return err
	}
	found, err := list(os.DirFS(d.Root), d.Dir)
	if err != nil {
		return err
	}
	return leave(c, found)
}

// hash reads the files that the job above it has listed. It was queued by a pattern,
// so what it is to do is not in its data.
func (w worker) hash(ctx context.Context, c *windlass.Claim) error {
	d, err := dataOf(c)
	if err != nil {
		return err
	}
	path, err := tree.ParsePath(c.ID())
	if err != nil {
		return err
	}
	results, err := c.Results(ctx, path.Parent().ID())
	if err != nil {
		return err
	}
	files, err := result[contents](results, path.Parent().ID())
	if err != nil {
		return err
	}
	if files, err = hash(ctx, os.DirFS(d.Root), files); err != nil {
		return err
	}
	return leave(c, files)
}

// merge puts together what the jobs that it needs have left.
func (w worker) merge(ctx context.Context, c *windlass.Claim) error {
	d, err := dataOf(c)
	if err != nil {
		return err
	}
	needs := c.Spec().Needs
	results, err := c.Results(ctx, needs...)
	if err != nil {
		return err
	}
	var entries []summary
	for _, need := range needs {
		more, err := entriesOf(results, need, d.Dir)
		if err != nil {
			return err
		}
		entries = append(entries, more...)
	}
	return leave(c, merge(d.Dir, entries))
}

// entriesOf are what a job that a merge needs adds to its folder: one entry, or
// those of a part of it.
func entriesOf(results map[string]json.RawMessage, id, dir string) ([]summary, error) {
	path, err := tree.ParsePath(id)
	if err != nil {
		return nil, err
	}
	if path.Type() == typeHash {
		files, err := result[contents](results, id)
		return []summary{summarize(files)}, err
	}
	below, err := result[merged](results, id)
	if below.Dir == dir { // a part of the folder itself
		return below.Entries, err
	}
	return []summary{below.summary}, err
}

// report says what the whole is.
func (w worker) report(ctx context.Context, c *windlass.Claim) error {
	results, err := c.Results(ctx, mergePath(top).ID())
	if err != nil {
		return err
	}
	whole, err := result[merged](results, mergePath(top).ID())
	if err != nil {
		return err
	}
	return leave(c, whole.summary)
}

// leave makes a value the result. What is too large now is so the next time, too.
func leave(c *windlass.Claim, value any) error { return windlass.Permanent(c.SetResult(value)) }
