package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// The reasons for refusing a claim or an ending.
var (
	// ErrOwned: someone else holds the task.
	ErrOwned = errors.New("the task is owned")
	// ErrGone: the task does not exist; it is done or was deleted.
	ErrGone = errors.New("the task does not exist")
	// ErrBlocked: a task that this one waits for still exists, or has failed; or the command
	// for which it was to be claimed is gone.
	ErrBlocked = errors.New("the task is blocked")
	// ErrChanged: the task was submitted again meanwhile, with other settings.
	ErrChanged = errors.New("the task has changed meanwhile")
	// ErrFenced: the claim is no longer held, so nothing was written.
	ErrFenced = errors.New("the claim is no longer held")
	// ErrStateChanged: the claim is held, but the state is not the one that the ending
	// was to replace, so nothing was written.
	ErrStateChanged = errors.New("the state has changed meanwhile")
	// ErrSuperseded: the claim is held, but the command is no longer the one that the
	// ending is about, so nothing was written.
	ErrSuperseded = errors.New("the command is another one by now, or gone")
)

// Ref refers to a task, and to no other that is submitted under its ID, and to a claim on it.
type Ref struct {
	// ID of the task.
	ID string
	// Token is the fencing token of the claim, zero for a task that is to be claimed.
	Token broker.Revision
	// Created is the revision at which the task was created: the revision of its own
	// key, or of its properties if PropsOnly.
	Created broker.Revision
	// PropsOnly is true if the task exists only by its properties.
	PropsOnly bool
}

// Ending returns an ending of the claim to fill in.
func (r Ref) Ending(kind Kind) Ending { return Ending{Ref: r, Kind: kind, At: time.Now()} }

// Wanted is a task to claim.
type Wanted struct {
	// Ref is the task. A claim is refused for another one than Created, and zero means any.
	Ref
	// Modified, if set, is the revision of the last change of the task's own key. The
	// claim is refused if the key has changed since, because the decision to claim no
	// longer applies.
	Modified broker.Revision
	// Blockers lists the tasks that must not exist, and must not have failed or been
	// killed if that blocks others. The claim has conditions for as many of them as fit
	// into a transaction, which is 63, or 62 for a task without a key of its own. The
	// others are looked for once it is granted: see Granted.Blocked. An ID with "|*" after
	// it stands for all jobs below that job.
	Blockers []string
	// Skipped, if set, replaces Blockers: the task is claimed in order to end it,
	// because the task with this ID has failed or was killed.
	Skipped string
	// SkippedAt is the revision at which that failure was marked.
	SkippedAt broker.Revision
	// Command, if set, replaces Blockers: the task is claimed in order to carry out the
	// command with this revision, whatever it waits for. The claim is refused if that
	// command is no longer in the task's slot.
	Command broker.Revision
	// WithoutProps is true if the task is known to have no properties, so that none
	// need be read.
	WithoutProps bool
	// HandedOver is true if the task was released for a certain node, possibly this
	// one: the claim deletes that note.
	HandedOver bool
}

// Granted is a claim that is held.
type Granted struct {
	// Ref is the claim. Created is zero if it is held but the task was deleted
	// meanwhile; the claim is then to be released.
	Ref
	// Blocked is true if the claim is held and must be released at once: one of
	// Wanted.Blockers was there after the grant, or it is not known that none was. A
	// claim of a task with blockers whose outcome was unknown and that turns up later,
	// by Adopt, was not checked and must be released too.
	Blocked bool
	// Spec, Props and State are the stored values at the moment of the claim, nil if
	// absent.
	Spec, Props, State []byte
	// StateRevision is the revision of State, zero if absent.
	StateRevision broker.Revision
}

// Result is the outcome of one wanted claim. It was granted if there is no error.
type Result struct {
	Granted
	// Err is one of this package's reasons, or the broker's error.
	Err error
}

// Coordinator makes and ends claims for one incarnation of a node, many at a time. New
// returns the only implementation, for any broker; a node can be given another, to
// observe or to test.
type Coordinator interface {
	// Claim attempts every wanted task and returns one result for each, in order. If an
	// outcome is unknown even after reading back, the result has the broker's error;
	// the claim may then still turn up, see Adopt.
	Claim(ctx context.Context, wanted []Wanted) []Result
	StateStore
	// Audit writes records, for people, and returns one error for each record, in
	// order. It can be repeated. Nothing depends on it, so it has the lowest priority.
	Audit(ctx context.Context, records []AuditRecord) []error
}

// StateStore is the part of a Coordinator that stores task data under the token of the
// claim. Claim and Adopt return the state, so that loading it takes no extra call, and
// End stores it.
type StateStore interface {
	// Adopt reads whether this incarnation holds the claims, and returns those that it
	// holds as if they had just been granted. ErrOwned and ErrGone mean that it does
	// not hold them.
	Adopt(ctx context.Context, ids []string) []Result
	// End performs every ending and returns one result for each, in order. Each is one
	// transaction that only the present owner can win. Result errors are
	//
	//   - nil if the ending took effect,
	//   - ErrFenced if the claim is no longer held,
	//   - ErrGone if it is held and the task was deleted,
	//   - ErrSuperseded if only the command was not the expected one,
	//   - ErrStateChanged if only the state or the progress was not,
	//   - otherwise the broker's error.
	//
	// After an error for which broker.MaybeApplied is true, the same ending must be
	// retried with Again set.
	End(ctx context.Context, endings []Ending) []Ended
}

// Identity is the owner in whose name claims are made.
type Identity struct {
	// Namespace is the namespace of the tasks.
	Namespace string
	// Node is the owner's name.
	Node string
	// Session is the session that claims belong to, Incarnation its name.
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

// claims is the Coordinator for a broker.
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
		case r.Err != nil:
			if results[i].Err = r.Err; broker.MaybeApplied(r.Err) {
				unknown = append(unknown, i)
			}
		case !r.OK:
			refused = append(refused, i)
		default:
			results[i].Granted = granted(wanted[i].ID, r.Revision, r.Reads)
		}
	}
	c.explain(ctx, wanted, results, refused)
	c.resolve(ctx, wanted, results, unknown)
	c.check(ctx, wanted, results)
	return results
}

// explain finds out from the stored data why claims were refused. Few are refused, so
// this costs less than reading the same keys along with every claim.
func (c *claims) explain(ctx context.Context, wanted []Wanted, results []Result, refused []int) {
	if len(refused) == 0 {
		return
	}
	txns := make([]broker.Txn, len(refused))
	for k, i := range refused {
		w := wanted[i]
		txns[k].Then = []broker.Op{broker.Read(c.existence(w.ID, w.PropsOnly)), broker.Read(c.space.Owner(w.ID))}
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := refused[k]
		if results[i].Err = r.Err; r.Err == nil {
			results[i].Err = wanted[i].refusal(r.Reads)
		}
	}
}

// existence returns the key by which a task exists.
func (c *claims) existence(id string, propsOnly bool) string {
	if propsOnly {
		return c.space.Props(id)
	}
	return c.space.Task(id)
}

func (c *claims) claimTxn(w Wanted) broker.Txn {
	id := w.ID
	txn := broker.Txn{
		If: []broker.Cond{w.exists(c.existence(w.ID, w.PropsOnly)), broker.Absent(c.space.Owner(id))},
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
		txn.If = append(txn.If, broker.Absent(c.space.Task(id))) // a task key could have needs that nobody has checked
	}
	if w.Skipped != "" {
		txn.If = append(txn.If, broker.Modified(c.space.Failed(w.Skipped), w.SkippedAt))
		return txn
	}
	if w.Command != 0 {
		txn.If = append(txn.If, broker.Modified(c.space.TaskCommand(id), w.Command))
		return txn
	}
	conditions, _ := w.waits()
	for _, b := range conditions {
		txn.If = append(txn.If, c.gone(b)...)
	}
	return txn
}

// exists returns the condition that the task exists, and is this very task if that is
// known.
func (w Wanted) exists(key string) broker.Cond {
	switch {
	case w.Modified != 0 && !w.PropsOnly:
		return broker.Modified(key, w.Modified)
	case w.Created != 0:
		return broker.Created(key, w.Created)
	}
	return broker.Exists(key)
}

// refusal returns which condition failed. If none fails any more, someone held the task
// a moment ago, or a task that it waits for has just gone.
func (w Wanted) refusal(reads []*broker.KV) error {
	switch {
	case reads[0] == nil, w.Created != 0 && reads[0].Created != w.Created:
		return ErrGone
	case reads[1] != nil:
		return ErrOwned
	case w.Modified != 0 && reads[0].Modified != w.Modified:
		return ErrChanged
	case len(w.Blockers) == 0 && w.Skipped == "" && w.Command == 0 && !w.PropsOnly:
		return ErrOwned
	default:
		return ErrBlocked
	}
}

// resolve reads back the claims whose outcome is unknown. Once is enough: the owner's
// watch shows claims that cannot be read now or are applied only later.
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

// granted builds a claim from what was read with it: the task, its state, and its
// properties unless these were not requested.
func granted(id string, token broker.Revision, reads []*broker.KV) Granted {
	task, state := reads[0], reads[1]
	var props *broker.KV
	if len(reads) > 2 {
		props = reads[2]
	}
	g := Granted{Ref: Ref{ID: id, Token: token}, Spec: value(task), Props: value(props), State: value(state)}
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

// OwnerValue returns the value of an owner key, byte for byte as in the layout.
func OwnerValue(node string) []byte {
	value, err := json.Marshal(struct {
		Node string `json:"node"`
	}{node})
	if err != nil {
		return nil // cannot be: a struct of one string always marshals
	}
	return value
}
