// Package subtree lists the jobs below a job of the tree.
package subtree

import (
	"context"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
)

// Below returns the IDs of the jobs below one, whether they have ended or not. Below what
// can be no job there is none.
func Below(ctx context.Context, b broker.Broker, space keys.Space, job string) (ids []string, err error) {
	if keys.CheckJobID(job) != nil {
		return nil, nil
	}
	for page, err := range b.List(ctx, space.JobTree(job)) {
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			if p := space.Parse(kv.Key); p.Kind == keys.Job {
				ids = append(ids, p.Name)
			}
		}
	}
	return ids, nil
}

// Expand returns blockers with the jobs of a tree in the place of each that stands for
// all of them, each once.
func Expand(ctx context.Context, b broker.Broker, space keys.Space, blockers []string) ([]string, error) {
	if !slices.ContainsFunc(blockers, depend.IsTree) {
		return blockers, nil
	}
	var ids []string
	seen := map[string]bool{}
	for _, blocker := range blockers {
		some := []string{blocker}
		if job, all := depend.Tree(blocker); all {
			var err error
			if some, err = Below(ctx, b, space, job); err != nil {
				return nil, err
			}
		}
		for _, id := range some {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}
