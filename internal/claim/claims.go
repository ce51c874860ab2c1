package claim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// The reasons for which a claim or an ending is refused.
var (
	// ErrOwned: someone else holds the task.
	ErrOwned = errors.New("the task is owned")
	// ErrGone: the task does not exist; it is done or was deleted.
	ErrGone = errors.New("the task does not exist")
	// ErrBlocked: a task that this one waits for still exists.
	ErrBlocked = errors.New("the task is blocked")
	// ErrFenced: the claim is no longer held, so nothing was written.
	ErrFenced = errors.New("the claim is no longer held")
)

// Wanted is a task to be claimed.
type Wanted struct {
	// ID of the task.
	ID string
	// PropsOnly tells that the task exists by its properties alone.
	PropsOnly bool
	// Blockers are the tasks that must not exist.
	Blockers []string
}

// Granted is a claim that is held.
type Granted struct {
	// ID of the task.
	ID string
	// Token is the fencing token.
	Token broker.Revision
	// Spec, Props and State are what the store had at the moment of the claim,
	// nil where there was nothing.
	Spec, Props, State []byte
}

// Result is the outcome of one wanted claim. Without an error it was granted.
type Result struct {
	Granted
	// Err is one of this package's reasons, or the broker's error.
	Err error
}

// Record is what claims/<task> says. It informs; nothing is decided by it.
type Record struct {
	// ClaimedAt is when the claim was asked for, by the node's clock.
	ClaimedAt time.Time `json:"claimed_at"`
	// Incarnation names the session of the node.
	Incarnation string `json:"incarnation"`
}

// Claims makes and ends claims on one session.
type Claims struct {
	// Broker to write to.
	Broker broker.Broker
	// Space spells the keys.
	Space keys.Space
	// Node is the owner's name.
	Node string
	// Session is what claims live with, Incarnation its name.
	Session     broker.SessionID
	Incarnation string
}

// Claim attempts every wanted task and returns one result for each, in order.
// An outcome that stays unknown until ctx is done has the broker's error; the
// claim may then still turn up, see Adopt.
func (c *Claims) Claim(ctx context.Context, wanted []Wanted) []Result {
	record, err := json.Marshal(Record{ClaimedAt: time.Now().UTC(), Incarnation: c.Incarnation})
	if err != nil {
		return failAll(len(wanted), err)
	}
	txns := make([]broker.Txn, len(wanted))
	for i, w := range wanted {
		txns[i] = c.claimTxn(w, record)
	}
	results := make([]Result, len(wanted))
	var unknown []int
	for i, r := range c.Broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil && broker.MaybeApplied(r.Err):
			results[i].Err = r.Err
			unknown = append(unknown, i)
		case r.Err != nil:
			results[i].Err = r.Err
		case !r.OK:
			results[i].Err = refusal(r.Reads)
		default:
			results[i].Granted = granted(wanted[i].ID, r.Revision, r.Reads)
		}
	}
	c.resolve(ctx, wanted, results, unknown)
	return results
}

func (c *Claims) claimTxn(w Wanted, record []byte) broker.Txn {
	id := w.ID
	exists := c.Space.Task(id)
	if w.PropsOnly {
		exists = c.Space.Props(id)
	}
	txn := broker.Txn{
		If: []broker.Cond{broker.Exists(exists), broker.Absent(c.Space.Owner(id))},
		Then: []broker.Op{
			broker.Read(c.Space.Task(id)), broker.Read(c.Space.Props(id)), broker.Read(c.Space.State(id)),
			broker.PutSession(c.Space.Owner(id), OwnerValue(c.Node), c.Session),
			broker.PutSession(c.Space.Claim(id), record, c.Session),
		},
		Else: []broker.Op{broker.Read(exists), broker.Read(c.Space.Owner(id))},
	}
	for _, b := range w.Blockers {
		txn.If = append(txn.If, broker.Absent(c.Space.Task(b)))
	}
	return txn
}

// refusal finds out which condition failed.
func refusal(reads []*broker.KV) error {
	switch {
	case reads[0] == nil:
		return ErrGone
	case reads[1] != nil:
		return ErrOwned
	default:
		return ErrBlocked
	}
}

// resolve reads back the claims whose outcome is unknown, until each is known
// or ctx is done.
func (c *Claims) resolve(ctx context.Context, wanted []Wanted, results []Result, unknown []int) {
	for retry := retryMin; len(unknown) > 0 && ctx.Err() == nil; retry = backOff(ctx, retry) {
		ids := make([]string, len(unknown))
		for k, i := range unknown {
			ids[k] = wanted[i].ID
		}
		var still []int
		for k, r := range c.Adopt(ctx, ids) {
			if broker.Temporary(r.Err) {
				still = append(still, unknown[k])
				continue
			}
			results[unknown[k]] = r
		}
		unknown = still
	}
}

// Adopt reads whether claims are held by this session, and returns those that
// are as if they had just been granted. ErrOwned and ErrGone mean that they are
// not.
func (c *Claims) Adopt(ctx context.Context, ids []string) []Result {
	txns := make([]broker.Txn, len(ids))
	for i, id := range ids {
		txns[i] = broker.Txn{Then: []broker.Op{
			broker.Read(c.Space.Task(id)), broker.Read(c.Space.Props(id)), broker.Read(c.Space.State(id)),
			broker.Read(c.Space.Owner(id)),
		}}
	}
	results := make([]Result, len(ids))
	for i, r := range c.Broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil:
			results[i].Err = r.Err
		case r.Reads[3] != nil && r.Reads[3].Session == c.Session:
			results[i].Granted = granted(ids[i], r.Reads[3].Created, r.Reads)
		case r.Reads[3] != nil || r.Reads[0] != nil || r.Reads[1] != nil:
			results[i].Err = ErrOwned
		default:
			results[i].Err = ErrGone
		}
	}
	return results
}

func granted(id string, token broker.Revision, reads []*broker.KV) Granted {
	return Granted{ID: id, Token: token, Spec: value(reads[0]), Props: value(reads[1]), State: value(reads[2])}
}

func value(kv *broker.KV) []byte {
	if kv == nil {
		return nil
	}
	return kv.Value
}

func failAll(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
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
