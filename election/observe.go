package election

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// note is the value of an entry whose candidate leads, or is asked to give up. Other entries
// have only the candidate's name.
type note struct {
	Candidate string `json:"candidate"`
	// Leads is for whoever is next: when this entry is gone, nobody is ahead of that one.
	Leads  bool `json:"leads,omitempty"`
	Resign bool `json:"resign,omitempty"`
}

func (n note) encode() []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // a string and bools
	}
	return b
}

// noteOf returns the note of an entry, the zero note for one that cannot be parsed or names
// another candidate: a name may look like JSON.
func noteOf(entry broker.KV) (n note) {
	if json.Unmarshal(entry.Value, &n) != nil || n.Candidate != candidateOf(entry.Key) {
		return note{}
	}
	return n
}

// isEntry reports whether kv is the entry that was created at a revision.
func isEntry(kv *broker.KV, created broker.Revision) bool {
	return kv != nil && kv.Created == created
}

// candidateOf returns the candidate of a key.
func candidateOf(key string) string { return path.Base(key) }

// byOrder compares two entries by their order in the queue. Entries have the same revision
// only if one transaction created them.
func byOrder(a, b broker.KV) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
}

// queueOf returns the candidates of an election in their order.
func queueOf(ctx context.Context, b broker.Broker, space keys.Space, election string) ([]broker.KV, broker.Revision, error) {
	all, rev, err := broker.Collect(ctx, b, space.Election(election))
	return queuesOf(space, all).queue(election), rev, err
}

// queues are the entries of candidates, by election and key.
type queues map[string]map[string]broker.KV

func queuesOf(space keys.Space, all []broker.KV) queues {
	q := queues{}
	for _, kv := range all {
		q.apply(space, broker.Event{KV: kv})
	}
	return q
}

// apply applies a change, and returns its election, empty for an unrelated key.
func (q queues) apply(space keys.Space, e broker.Event) string {
	p := space.Parse(e.KV.Key)
	switch {
	case p.Kind != keys.Candidate:
		return ""
	case !e.Deleted && q[p.Name] == nil:
		q[p.Name] = map[string]broker.KV{e.KV.Key: e.KV}
	case !e.Deleted:
		q[p.Name][e.KV.Key] = e.KV
	default:
		if delete(q[p.Name], e.KV.Key); len(q[p.Name]) == 0 {
			delete(q, p.Name)
		}
	}
	return p.Name
}

// queue returns the entries of an election in their order.
func (q queues) queue(election string) []broker.KV {
	return slices.SortedFunc(maps.Values(q[election]), byOrder)
}

// first returns the entry of the leader of an election, the zero KV if it has none.
func (q queues) first(election string) (first broker.KV) {
	for _, kv := range q[election] {
		if first.Key == "" || byOrder(kv, first) < 0 {
			first = kv
		}
	}
	return first
}

func (q queues) info(space keys.Space, election string, silent map[broker.SessionID]time.Time) ElectionInfo {
	info := ElectionInfo{Name: election}
	for _, kv := range q.queue(election) {
		info.Candidates = append(info.Candidates, CandidateInfo{
			Name: space.Parse(kv.Key).Candidate, Token: int64(kv.Created), Session: kv.Session, Resigning: noteOf(kv).Resign,
			SilentSince: silent[kv.Session],
		})
	}
	return info
}

// Leadership says who leads. The zero value means nobody.
type Leadership struct {
	// Leader is the candidate's name.
	Leader string
	// Token is the token of the term.
	Token int64
	// SilentSince is CandidateInfo.SilentSince of the leader. Only Observe sets it.
	SilentSince time.Time
}

func leadershipOf(kv broker.KV) Leadership {
	return Leadership{Leader: candidateOf(kv.Key), Token: int64(kv.Created)}
}

// CandidateInfo is one candidate in the queue.
type CandidateInfo struct {
	// Name is the name of the candidate.
	Name string
	// Token is the token of the term that the candidate has or will have.
	Token int64
	// Session is the session that the entry belongs to.
	Session broker.SessionID
	// Resigning is true if the candidate was asked to give up.
	Resigning bool
	// SilentSince is when the session was last renewed, by the clock of the candidate, if that is
	// longer ago than its TTL: the candidate is dead or cut off, and nobody has ended the session
	// yet. If two clocks say so, a second look a few seconds later tells. It is zero on a store that
	// ends sessions by itself.
	SilentSince time.Time
}

// ElectionInfo is one election.
type ElectionInfo struct {
	// Name is the election's.
	Name string
	// Candidates lists the candidates in the order of the queue; the first one leads.
	Candidates []CandidateInfo
}

// List returns the elections that have candidates, by name.
func List(ctx context.Context, b broker.Broker, namespace string) ([]ElectionInfo, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	all, _, err := broker.Collect(ctx, b, space.Elections())
	if err != nil {
		return nil, err
	}
	var silence session.Silence
	silent, err := silence.Of(ctx, b, space.Sessions())
	if err != nil {
		return nil, err
	}
	queues := queuesOf(space, all)
	var infos []ElectionInfo
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		infos = append(infos, queues.info(space, name, silent))
	}
	return infos, nil
}

// RequestResign asks the leader of an election to give up and join again at the end,
// and returns its leadership. It does not wait until the term is over. If the leader
// has changed meanwhile, it returns ErrNotLeader and asks nobody, not even the next
// leader.
func RequestResign(ctx context.Context, b broker.Broker, namespace, election string) (Leadership, error) {
	space, err := named(namespace, election)
	if err != nil {
		return Leadership{}, err
	}
	queue, _, err := queueOf(ctx, b, space, election)
	if err != nil {
		return Leadership{}, err
	}
	if len(queue) == 0 {
		return Leadership{}, fmt.Errorf("election %q: %w", election, ErrNoLeader)
	}
	first := queue[0]
	r, err := broker.CommitOne(ctx, b, broker.Txn{
		If:   []broker.Cond{broker.Created(first.Key, first.Created)},
		Then: []broker.Op{broker.PutSession(first.Key, note{Candidate: candidateOf(first.Key), Resign: true}.encode(), first.Session)},
	})
	switch {
	case errors.Is(err, broker.ErrSessionExpired), err == nil && !r.OK:
		return Leadership{}, fmt.Errorf("election %q: candidate %q: %w", election, candidateOf(first.Key), ErrNotLeader)
	case err != nil:
		return Leadership{}, err
	}
	return leadershipOf(first), nil
}

func named(namespace, election string) (keys.Space, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return keys.Space{}, err
	}
	if err := keys.CheckElectionName(election); err != nil {
		return keys.Space{}, err
	}
	return space, nil
}
