package coordinator

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// The reasons for which a claim or an ending is refused.
var (
	// ErrOwned: someone else holds the task.
	ErrOwned = errors.New("the task is owned")
	// ErrGone: the task does not exist; it is done or was deleted.
	ErrGone = errors.New("the task does not exist")
	// ErrBlocked: a task that this one waits for still exists, or has failed.
	ErrBlocked = errors.New("the task is blocked")
	// ErrChanged: the task was submitted anew meanwhile, with other settings.
	ErrChanged = errors.New("the task has changed meanwhile")
	// ErrFenced: the claim is no longer held, so nothing was written.
	ErrFenced = errors.New("the claim is no longer held")
	// ErrStateChanged: the claim is held and the state is not the one that the
	// ending was to replace, so nothing was written.
	ErrStateChanged = errors.New("the state has changed meanwhile")
	// ErrSuperseded: the claim is held and the command is no longer the one that
	// the ending is about, so nothing was written.
	ErrSuperseded = errors.New("the command is another one by now, or gone")
)

// Wanted is a task to be claimed.
type Wanted struct {
	// ID of the task.
	ID string
	// PropsOnly tells that the task exists by its properties alone.
	PropsOnly bool
	// Created is the revision at which the task came to exist, as in Granted: it
	// is this very task that is wanted, and no other that was submitted under
	// its ID since. Zero is any.
	Created broker.Revision
	// Modified, if set, is the revision at which the task's own key changed last:
	// what was decided from it is not to hold for what it says by now.
	Modified broker.Revision
	// Blockers are the tasks that must not exist, and must not have failed or been
	// killed where that blocks others.
	Blockers []string
	// Skipped, if set, takes the place of Blockers: the task is claimed to be
	// ended, because the one of this ID has failed or was killed.
	Skipped string
	// SkippedAt is the revision at which that failure was marked.
	SkippedAt broker.Revision
	// WithoutProps tells that the task has no properties, as far as is known, and
	// that none need be read.
	WithoutProps bool
	// HandedOver tells that the task was released for some node, be it this one:
	// the claim takes that note away.
	HandedOver bool
}

// Granted is a claim that is held.
type Granted struct {
	// ID of the task.
	ID string
	// Token is the fencing token.
	Token broker.Revision
	// Created is the revision at which the task came to exist: its own key, or
	// its properties if PropsOnly. Zero where the claim is held and the task was
	// deleted meanwhile; then the claim is to be released.
	Created   broker.Revision
	PropsOnly bool
	// Spec, Props and State are what the store had at the moment of the claim,
	// nil where there was nothing.
	Spec, Props, State []byte
	// StateRevision is the revision of State, zero where there was none.
	StateRevision broker.Revision
}

// Result is the outcome of one wanted claim. Without an error it was granted.
type Result struct {
	Granted
	// Err is one of this package's reasons, or the broker's error.
	Err error
}

// Coordinator is what a node asks of the cluster for one incarnation: to claim
// many, to end many. New makes the one implementation, over any broker; a node
// can be given another, to observe or to test.
type Coordinator interface {
	// Claim attempts every wanted task and returns one result for each, in
	// order. An outcome that is unknown, even after reading back, has the
	// broker's error; the claim may then still turn up, see Adopt.
	Claim(ctx context.Context, wanted []Wanted) []Result
	StateStore
	// Note writes down what happened, for people, and returns one error for
	// each note, in order. It can be repeated. Nothing depends on it, so it can
	// wait until there is nothing else to do.
	Note(ctx context.Context, notes []Note) []error
}

// StateStore is the part of a Coordinator that keeps what is known of tasks under
// the token of their claim: Claim and Adopt bring the state along, so that loading
// it takes no call of its own, and End stores it.
type StateStore interface {
	// Adopt reads whether claims are held by this incarnation, and returns
	// those that are as if they had just been granted. ErrOwned and ErrGone
	// mean that they are not.
	Adopt(ctx context.Context, ids []string) []Result
	// End performs every ending, each in one transaction that only the present
	// owner can win, and returns one result for each, in order. Its error is
	// nil when it took effect, ErrFenced when the claim is no longer held,
	// ErrGone when it is and the task was deleted, ErrSuperseded when only the
	// command was not the expected one, ErrStateChanged when only the state or
	// the progress was not, otherwise the broker's. After one that
	// broker.MaybeApplied, the same ending is to be tried again with Again set.
	End(ctx context.Context, endings []Ending) []Ended
}

// Identity is in whose name claims are made.
type Identity struct {
	// Namespace that the tasks are in.
	Namespace string
	// Node is the owner's name.
	Node string
	// Session is what claims live with, Incarnation its name.
	Session     broker.SessionID
	Incarnation string
}

// New returns the coordinator over a broker.
func New(b broker.Broker, identity Identity) (Coordinator, error) {
	space, err := keys.New(identity.Namespace)
	if err != nil {
		return nil, err
	}
	if err := keys.CheckNodeName(identity.Node); err != nil {
		return nil, err
	}
	return &claims{broker: b, space: space, Identity: identity, owner: OwnerValue(identity.Node)}, nil
}

// claims is the Coordinator over a broker.
type claims struct {
	Identity
	broker broker.Broker
	space  keys.Space
	owner  []byte
}

var _ Coordinator = (*claims)(nil)

// Claim implements Coordinator.
func (c *claims) Claim(ctx context.Context, wanted []Wanted) []Result {
	txns := make([]broker.Txn, len(wanted))
	for i, w := range wanted {
		txns[i] = c.claimTxn(w)
	}
	results := make([]Result, len(wanted))
	var unknown, refused []int
	for i, r := range c.broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil && broker.MaybeApplied(r.Err):
			results[i].Err = r.Err
			unknown = append(unknown, i)
		case r.Err != nil:
			results[i].Err = r.Err
		case !r.OK:
			refused = append(refused, i)
		default:
			results[i].Granted = granted(wanted[i].ID, r.Revision, r.Reads)
		}
	}
	c.explain(ctx, wanted, results, refused)
	c.resolve(ctx, wanted, results, unknown)
	return results
}

// explain finds out why claims were refused, by what is stored now. Few are, so
// this costs less than asking along with every claim.
func (c *claims) explain(ctx context.Context, wanted []Wanted, results []Result, refused []int) {
	if len(refused) == 0 {
		return
	}
	txns := make([]broker.Txn, len(refused))
	for k, i := range refused {
		txns[k].Then = []broker.Op{broker.Read(c.existence(wanted[i])), broker.Read(c.space.Owner(wanted[i].ID))}
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := refused[k]
		if results[i].Err = r.Err; r.Err == nil {
			results[i].Err = wanted[i].refusal(r.Reads)
		}
	}
}

// existence is the key by which a task exists.
func (c *claims) existence(w Wanted) string {
	if w.PropsOnly {
		return c.space.Props(w.ID)
	}
	return c.space.Task(w.ID)
}

func (c *claims) claimTxn(w Wanted) broker.Txn {
	id := w.ID
	txn := broker.Txn{
		If: []broker.Cond{w.exists(c.existence(w)), broker.Absent(c.space.Owner(id))},
		Then: []broker.Op{
			broker.Read(c.space.Task(id)), broker.Read(c.space.State(id)),
			broker.PutSession(c.space.Owner(id), c.owner, c.Session),
		},
	}
	if !w.WithoutProps {
		txn.Then = append(txn.Then, broker.Read(c.space.Props(id)))
	}
	if w.HandedOver {
		txn.Then = append(txn.Then, broker.Delete(c.space.Handover(id)))
	}
	if w.PropsOnly {
		txn.If = append(txn.If, broker.Absent(c.space.Task(id))) // a key brings needs that nobody has looked at
	}
	if w.Skipped != "" {
		txn.If = append(txn.If, broker.Modified(c.space.Failed(w.Skipped), w.SkippedAt))
		return txn
	}
	for _, b := range w.Blockers {
		txn.If = append(txn.If, broker.Absent(c.space.Task(b)), broker.Absent(c.space.Failed(b)))
	}
	return txn
}

// exists is the condition that the task is there, and this one if that is known.
func (w Wanted) exists(key string) broker.Cond {
	switch {
	case w.Modified != 0 && !w.PropsOnly:
		return broker.Modified(key, w.Modified)
	case w.Created != 0:
		return broker.Created(key, w.Created)
	}
	return broker.Exists(key)
}

// refusal says which condition failed. If none does any more, someone held the
// task a moment ago, or one that it waits for has just gone.
func (w Wanted) refusal(reads []*broker.KV) error {
	switch {
	case reads[0] == nil, w.Created != 0 && reads[0].Created != w.Created:
		return ErrGone
	case reads[1] != nil:
		return ErrOwned
	case w.Modified != 0 && reads[0].Modified != w.Modified:
		return ErrChanged
	case len(w.Blockers) == 0 && w.Skipped == "" && !w.PropsOnly:
		return ErrOwned
	default:
		return ErrBlocked
	}
}

// resolve reads back the claims whose outcome is unknown. Once is enough: what
// cannot be read now, or is applied only later, the owner sees by watching.
func (c *claims) resolve(ctx context.Context, wanted []Wanted, results []Result, unknown []int) {
	if len(unknown) == 0 {
		return
	}
	ids := make([]string, len(unknown))
	for k, i := range unknown {
		ids[k] = wanted[i].ID
	}
	for k, r := range c.Adopt(ctx, ids) {
		results[unknown[k]] = r
	}
}

// Adopt implements Coordinator.
func (c *claims) Adopt(ctx context.Context, ids []string) []Result {
	txns := make([]broker.Txn, len(ids))
	for i, id := range ids {
		txns[i] = broker.Txn{Then: []broker.Op{
			broker.Read(c.space.Task(id)), broker.Read(c.space.State(id)), broker.Read(c.space.Props(id)),
			broker.Read(c.space.Owner(id)),
		}}
	}
	results := make([]Result, len(ids))
	for i, r := range c.broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil:
			results[i].Err = r.Err
		case r.Reads[3] != nil && r.Reads[3].Session == c.Session:
			results[i].Granted = granted(ids[i], r.Reads[3].Created, r.Reads)
		case r.Reads[3] != nil || r.Reads[0] != nil || r.Reads[2] != nil:
			results[i].Err = ErrOwned
		default:
			results[i].Err = ErrGone
		}
	}
	return results
}

// granted makes a claim of what was read with it: the task, its state, and its
// properties unless these were not asked for.
func granted(id string, token broker.Revision, reads []*broker.KV) Granted {
	task, state := reads[0], reads[1]
	g := Granted{ID: id, Token: token, Spec: value(task), State: value(state)}
	var props *broker.KV
	if len(reads) > 2 {
		props = reads[2]
		g.Props = value(props)
	}
	switch {
	case task != nil && task.Created <= token:
		g.Created = task.Created
	case props != nil && props.Created <= token:
		g.Created, g.PropsOnly = props.Created, true
	}
	if state != nil {
		g.StateRevision = state.Modified
	}
	return g
}

func value(kv *broker.KV) []byte {
	if kv == nil {
		return nil
	}
	return kv.Value
}

// OwnerValue is what an owner key says, byte for byte as in the layout.
func OwnerValue(node string) []byte {
	value, err := json.Marshal(struct {
		Node string `json:"node"`
	}{node})
	if err != nil {
		return nil // cannot be: a struct of one string always marshals
	}
	return value
}
