package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Fixed is a repair that Fix did, or left. Its JSON is stable.
type Fixed struct {
	// What is the repair.
	What string `json:"what"`
	// Done reports whether it was done; otherwise Why says why not.
	Done bool   `json:"done"`
	Why  string `json:"why,omitempty"`
}

// repair mends one defect if nothing has changed since.
type repair struct {
	what string
	txn  broker.Txn
}

// repairs are those that need no decision.
func (s *snapshot) repairs() []repair {
	var list []repair
	remove := func(k *found, guard broker.Cond) {
		if s.corrupt[k.Key] == nil {
			txn := broker.Txn{If: []broker.Cond{s.unchanged(k.Key), guard}, Then: []broker.Op{broker.Delete(k.Key)}}
			list = append(list, repair{what: "delete " + k.Key, txn: txn})
		}
	}
	for _, k := range s.order {
		t := s.tasks.Remains(k.Name)
		switch {
		case k.Kind == keys.Owner && k.Session == 0:
			// A key that is put again has another creation revision, one that is
			// overwritten another modification.
			remove(k, broker.Created(k.Key, k.Created))
		case k.Kind == keys.Task || k.Kind == keys.Props && !t.HasKey:
			list = append(list, s.removeEnded(t)...)
		case s.leftover(k):
			remove(k, broker.Absent(s.space.Owner(k.Name)))
		}
	}
	return list
}

// removeEnded removes what is left of a task, if it has ended and can be read. It names each
// key, because other keys below the task are not ours.
func (s *snapshot) removeEnded(t *mirror.Task) []repair {
	if !s.ended(t) || t.Owned() {
		return nil
	}
	txn := broker.Txn{If: []broker.Cond{s.unchanged(s.space.State(t.ID)), broker.Absent(s.space.Owner(t.ID))}}
	for _, key := range []string{s.space.Task(t.ID), s.space.Props(t.ID), s.space.TaskCommand(t.ID)} {
		if s.corrupt[key] != nil {
			return nil
		}
		txn.If, txn.Then = append(txn.If, s.unchanged(key)), append(txn.Then, broker.Delete(key))
	}
	return []repair{{what: fmt.Sprintf("remove what is left of task %s, which is %s", t.ID, s.states[t.ID]), txn: txn}}
}

// unchanged is the condition that a key is as it was found, or still absent.
func (s *snapshot) unchanged(key string) broker.Cond {
	if at := s.get(key).Modified; at != 0 {
		return broker.Modified(key, at)
	}
	return broker.Absent(key)
}

// roundsMax bounds how often Fix looks again: deleting an owner key can leave a record, or a
// task that has ended.
const roundsMax = 3

// Fix repairs defects that need no decision, and returns what it did. It does nothing in a
// namespace of a newer layout.
func (d *Doctor) Fix(ctx context.Context) ([]Fixed, error) {
	fixed, err := d.endSilent(ctx)
	if err != nil {
		return fixed, err
	}
	for range roundsMax {
		s, err := read(ctx, d.Broker, d.Space)
		if err != nil {
			return fixed, err
		}
		if _, known := s.checkLayout(); !known {
			return fixed, nil
		}
		done, err := d.apply(ctx, s.repairs())
		fixed = append(fixed, done...)
		if err != nil || !slices.ContainsFunc(done, func(f Fixed) bool { return f.Done }) {
			return fixed, err // another look would find the same
		}
	}
	return fixed, nil
}

// apply commits the repairs. It reports an unknown outcome as an error; the next look finds
// what was not repaired.
func (d *Doctor) apply(ctx context.Context, list []repair) (fixed []Fixed, err error) {
	txns := make([]broker.Txn, len(list))
	for i, r := range list {
		txns[i] = r.txn
	}
	for i, r := range d.Broker.Commit(ctx, txns...) {
		f := Fixed{What: list[i].what, Done: r.OK}
		switch {
		case r.Err != nil:
			f.Why, err = r.Err.Error(), r.Err
		case !r.OK:
			f.Why = "it has changed meanwhile, and was left alone"
		}
		fixed = append(fixed, f)
	}
	if err != nil {
		return fixed, fmt.Errorf("mend: %w", err)
	}
	return fixed, nil
}
