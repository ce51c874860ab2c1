package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/mirror"
)

// doubtsMax limits how many doubts are told, and doubtfulNeeds how many needs are looked
// for.
const (
	doubtsMax     = 10
	doubtfulNeeds = windlass.NeedsMax
)

// Warnings returns what is probably not meant about some tasks that are about to be
// submitted, or were just: a type that is paused or that no node which is there runs, and a
// need of which there is no trace, which counts as done. They are for people, and no errors: a node may
// come, and what was needed may have ended and been forgotten.
func (i *Inspector) Warnings(ctx context.Context, submissions []windlass.Submission) ([]string, error) {
	types, needs, own := map[string]bool{}, map[string]string{}, map[string]bool{}
	for _, s := range submissions {
		types[s.Spec.Type], own[s.ID] = true, true
		for _, need := range s.Spec.Needs {
			if job, all := depend.Tree(need); all {
				need = job
			}
			if len(needs) < doubtfulNeeds {
				needs[need] = s.ID
			}
		}
	}
	maps.DeleteFunc(needs, func(need, _ string) bool { return own[need] })
	doubts, err := i.doubtfulTypes(ctx, types)
	if err != nil {
		return nil, fmt.Errorf("look for the nodes: %w", err)
	}
	lost, err := i.unknownTasks(ctx, slices.Sorted(maps.Keys(needs)))
	if err != nil {
		return nil, fmt.Errorf("look for what is needed: %w", err)
	}
	for _, need := range lost {
		doubts = append(doubts, fmt.Sprintf("task %q needs %q, which is not there and has left no trace: it counts as done", needs[need], need))
	}
	if more := len(doubts) - doubtsMax; more > 0 {
		doubts = append(doubts[:doubtsMax], fmt.Sprintf("there are %d more such warnings", more))
	}
	return doubts, nil
}

func (i *Inspector) doubtfulTypes(ctx context.Context, types map[string]bool) (doubts []string, err error) {
	nodes, err := mirror.ListNodes(ctx, i.broker, i.space)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if p := windlass.ParseSuspension(nodes.PauseOf(name)); p != nil {
			doubts = append(doubts, fmt.Sprintf("the type %q is paused %v", name, p))
		}
	}
	run := map[string]bool{}
	for _, n := range nodes.Registered() {
		var info windlass.NodeInfo
		_ = json.Unmarshal(n.Info, &info) // one that cannot be read runs nothing that is known
		for _, name := range slices.Concat(info.Types, info.Pulls) {
			run[name] = true
		}
	}
	known := slices.Sorted(maps.Keys(run))
	for _, name := range slices.Sorted(maps.Keys(types)) {
		switch {
		case run[name] || run[windlass.AnyType]:
		case len(known) == 0:
			return append(doubts, "no node is there, so nothing runs yet"), nil
		default:
			doubts = append(doubts, fmt.Sprintf("no node that is there runs the type %q; they run %q", name, known))
		}
	}
	return doubts, nil
}

// unknownTasks returns those of some tasks that are not there and have left no state.
func (i *Inspector) unknownTasks(ctx context.Context, ids []string) (unknown []string, err error) {
	txns := make([]broker.Txn, len(ids))
	for n, id := range ids {
		txns[n].Then = []broker.Op{broker.Read(i.space.Task(id)), broker.Read(i.space.Props(id)), broker.Read(i.space.State(id))}
	}
	if len(txns) == 0 {
		return nil, nil
	}
	for n, r := range i.broker.Commit(ctx, txns...) {
		if r.Err != nil {
			return nil, r.Err
		}
		if !slices.ContainsFunc(r.Reads, func(kv *broker.KV) bool { return kv != nil }) {
			unknown = append(unknown, ids[n])
		}
	}
	return unknown, nil
}
