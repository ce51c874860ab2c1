package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// needsMost is of how many jobs one merge is made. Where there are more, they are
// merged in parts first: a job waits for at most windlass.NeedsMax others.
const needsMost = 50

// data is what a job is queued with. Root is the folder of the source tree, which
// all nodes have; Dir a folder in it, with slashes, for the jobs of one.
type data struct {
	Root string `json:"root"`
	Dir  string `json:"dir,omitempty"`
}

func (d data) json() json.RawMessage {
	value, err := json.Marshal(d)
	if err != nil {
		return nil // cannot be: plain fields
	}
	return value
}

// start queues the one job that queues all others.
func start(ctx context.Context, jobs *tree.Tree, root string) error {
	_, err := jobs.Queue(ctx, tree.Request{Name: top, Type: typeList, Data: data{Root: root}.json()})
	return err
}

// queueAll queues the jobs of all folders below the job that lists them, and
// returns how many. That job may be run again after its node has died: what it
// queued before is then what it queues again, and all of it still pending, because
// none starts before the list is completed.
func queueAll(ctx context.Context, jobs *tree.Tree, root string, found folders) (int, error) {
	var requests []tree.Request
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if found[dir].isPackage {
			requests = append(requests, tree.Request{
				Name: nameOf(dir), Type: typePackage, Parent: listPath, Data: data{Root: root, Dir: dir}.json(),
			})
		}
	}
	packages, err := jobs.Queue(ctx, requests...)
	if err != nil {
		return 0, err
	}
	hashes, err := jobs.Queue(ctx, tree.Request{
		Name: top, Type: typeHash, Data: data{Root: root}.json(),
		Under: &tree.Pattern{Type: typePackage}, NameOf: func(parent, _ string) string { return parent },
	})
	if err != nil {
		return 0, err
	}
	requests = requests[:0]
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		requests = append(requests, found.merges(root, dir)...)
	}
	requests = append(requests, tree.Request{
		Name: top, Type: typeReport, Parent: listPath, Data: data{Root: root}.json(),
		Spec: windlass.Spec{Needs: []string{mergePath(top).ID()}},
	})
	rest, err := jobs.Queue(ctx, requests...)
	return len(packages) + len(hashes) + len(rest), err
}

// merges are the merge jobs of a folder: that of all of it, which needs the hashes
// of its own files and the merges right below, and those of parts of that.
func (all folders) merges(root, dir string) (requests []tree.Request) {
	var needs []string
	if all[dir].isPackage {
		needs = append(needs, hashPath(dir).ID())
	}
	for _, below := range all[dir].below {
		needs = append(needs, mergePath(nameOf(below)).ID())
	}
	of := func(name string, needs []string) tree.Path {
		requests = append(requests, tree.Request{
			Name: name, Type: typeMerge, Parent: listPath, Data: data{Root: root, Dir: dir}.json(),
			Spec: windlass.Spec{Needs: needs},
		})
		return mergePath(name)
	}
	for parts := 0; len(needs) > needsMost; {
		var merged []string
		for some := range slices.Chunk(needs, needsMost) {
			parts++
			merged = append(merged, of(partOf(nameOf(dir), parts), some).ID())
		}
		needs = merged
	}
	of(nameOf(dir), needs)
	return requests
}

// result reads what another job has left.
func result[T any](results map[string]json.RawMessage, id string) (value T, err error) {
	if results[id] == nil {
		return value, windlass.Permanent(fmt.Errorf("job %s has left no result", id))
	}
	if err := json.Unmarshal(results[id], &value); err != nil {
		return value, windlass.Permanent(fmt.Errorf("result of job %s: %w", id, err))
	}
	return value, nil
}

// dataOf is what the job of a claim was queued with.
func dataOf(c *windlass.Claim) (d data, err error) {
	if err := json.Unmarshal(c.Props(), &d); err != nil || d.Root == "" {
		return d, windlass.Permanent(errors.Join(fmt.Errorf("data %.100q: need a root", c.Props()), err))
	}
	return d, nil
}
