package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Fixed is one thing that Fix did, or left alone. Its JSON is stable.
type Fixed struct {
	// What was to be done.
	What string `json:"what"`
	// Done tells that it was; otherwise Why says why not.
	Done bool   `json:"done"`
	Why  string `json:"why,omitempty"`
}

// repair is a transaction that mends one thing, if it is still as it was found.
type repair struct {
	what string
	txn  broker.Txn
}

// repairs are what can be mended without a decision.
func (s *snapshot) repairs() []repair {
	var list []repair
	for _, k := range s.order {
		t := s.tasks.Remains(k.Name)
		switch {
		case k.Kind == keys.Owner && k.Session == 0 && s.corrupt[k.Key] == nil:
			// Put again, it would have another creation revision; put over, another modification.
			list = append(list, repair{what: "delete " + k.Key, txn: broker.Txn{
				If:   []broker.Cond{broker.Created(k.Key, k.Created), s.unchanged(k.Key)},
				Then: []broker.Op{broker.Delete(k.Key)},
			}})
		case k.Kind == keys.Task || k.Kind == keys.Props && !t.HasKey:
			list = append(list, s.removeEnded(t)...)
		case s.leftover(k) && s.corrupt[k.Key] == nil:
			list = append(list, repair{what: "delete " + k.Key, txn: broker.Txn{
				If:   []broker.Cond{s.unchanged(k.Key), broker.Absent(s.space.Owner(k.Name))},
				Then: []broker.Op{broker.Delete(k.Key)},
			}})
		}
	}
	return list
}

// removeEnded removes what is left of a task, if it has ended and can be read. It names
// each key: whatever else is below the task is not ours.
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

// unchanged is the condition that a key is as it was found, or is not there as it was not.
func (s *snapshot) unchanged(key string) broker.Cond {
	if at := s.get(key).Modified; at != 0 {
		return broker.Modified(key, at)
	}
	return broker.Absent(key)
}

// roundsMax bounds how often Fix looks again for what mending one thing brought
// to light: an owner key that is deleted can leave a record, or a task that has
// ended.
const roundsMax = 3

// Fix mends what can be mended without a decision, and says what it did. In a
// namespace of a newer layout that is nothing.
func (d *Doctor) Fix(ctx context.Context) ([]Fixed, error) {
	var fixed []Fixed
	for range roundsMax {
		s, err := read(ctx, d.Broker, d.Space)
		if err != nil {
			return fixed, fmt.Errorf("list the namespace: %w", err)
		}
		if _, known := s.checkLayout(); !known {
			return fixed, nil
		}
		list := s.repairs()
		if len(list) == 0 {
			return fixed, nil
		}
		done, err := d.apply(ctx, list)
		fixed = append(fixed, done...)
		if err != nil {
			return fixed, err
		}
		if !slices.ContainsFunc(done, func(f Fixed) bool { return f.Done }) {
			return fixed, nil // nothing would be different next time
		}
	}
	return fixed, nil
}

// apply commits the repairs. An outcome that is unknown is reported as such; what
// is not mended is found again next time.
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
