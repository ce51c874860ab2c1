package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
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
func (s *snapshot) repairs(space keys.Space) []repair {
	var list []repair
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		if t.owner != nil && t.owner.session == 0 && t.corrupt[keys.Owner] == nil {
			list = append(list, freeOwner(space, t))
		}
		if t.exists() && t.ended() && t.owner == nil && t.corrupt[keys.Task] == nil && t.corrupt[keys.Props] == nil && t.corrupt[keys.TaskCommand] == nil {
			list = append(list, removeEnded(space, t))
		}
		if t.leftoverClaim() && t.corrupt[keys.Claim] == nil {
			list = append(list, repair{what: "delete " + space.Claim(id), txn: broker.Txn{
				If:   []broker.Cond{broker.Modified(space.Claim(id), t.claim.modified), broker.Absent(space.Owner(id))},
				Then: []broker.Op{broker.Delete(space.Claim(id))},
			}})
		}
	}
	return list
}

// freeOwner deletes an owner key that no session will ever delete. Put again, it
// would have another creation revision; put over, another modification.
func freeOwner(space keys.Space, t *task) repair {
	key := space.Owner(t.id)
	return repair{what: "delete " + key, txn: broker.Txn{
		If:   []broker.Cond{broker.Created(key, t.owner.created), broker.Modified(key, t.owner.modified)},
		Then: []broker.Op{broker.Delete(key)},
	}}
}

// removeEnded removes what is left of a task that has ended. It names each key:
// whatever else is below the task is not ours.
func removeEnded(space keys.Space, t *task) repair {
	return repair{what: fmt.Sprintf("remove what is left of task %s, which is %s", t.id, t.now.State), txn: broker.Txn{
		If: []broker.Cond{
			broker.Modified(space.State(t.id), t.state.modified), broker.Absent(space.Owner(t.id)),
			unchanged(space.Task(t.id), t.key), unchanged(space.Props(t.id), t.props), unchanged(space.TaskCommand(t.id), t.command),
		},
		Then: []broker.Op{broker.Delete(space.Task(t.id)), broker.Delete(space.Props(t.id)), broker.Delete(space.TaskCommand(t.id))},
	}}
}

func unchanged(key string, at *place) broker.Cond {
	if at == nil {
		return broker.Absent(key)
	}
	return broker.Modified(key, at.modified)
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
		if _, known := s.checkLayout(d.Space); !known {
			return fixed, nil
		}
		list := s.repairs(d.Space)
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
