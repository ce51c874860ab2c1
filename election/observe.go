package election

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// resignation is what an entry says whose candidate is asked to give up. Any other
// says the candidate's name and nothing else.
type resignation struct {
	Candidate string `json:"candidate"`
	Resign    bool   `json:"resign"`
}

func resignValue(candidate string) []byte {
	b, err := json.Marshal(resignation{candidate, true})
	if err != nil {
		panic(err) // a string and a bool
	}
	return b
}

// isResigning tells whether an entry asks for a resignation. What cannot be read,
// or names another candidate, asks for nothing: a name may look like JSON.
func isResigning(entry broker.KV) bool {
	var v resignation
	return json.Unmarshal(entry.Value, &v) == nil && v.Resign && v.Candidate == candidateOf(entry.Key)
}

// isEntry tells whether what was read is a certain entry.
func isEntry(kv *broker.KV, created broker.Revision) bool {
	return kv != nil && kv.Created == created
}

// candidateOf is whose entry a key is.
func candidateOf(key string) string { return path.Base(key) }

// byOrder is the order of the line. Several entries can come into being at one
// revision only if one caller puts them all.
func byOrder(a, b broker.KV) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
}

// lineOf lists the candidates of an election in their order.
func lineOf(ctx context.Context, b broker.Broker, space keys.Space, election string) ([]broker.KV, broker.Revision, error) {
	all, rev, err := broker.Collect(ctx, b, space.Election(election))
	if err != nil {
		return nil, 0, err
	}
	return ordered(space, all), rev, nil
}

// ordered leaves the candidates, in their order.
func ordered(space keys.Space, all []broker.KV) []broker.KV {
	line := slices.DeleteFunc(all, func(kv broker.KV) bool { return space.Parse(kv.Key).Kind != keys.Candidate })
	slices.SortFunc(line, byOrder)
	return line
}

// Leadership is who leads. The zero value means nobody.
type Leadership struct {
	// Leader is the candidate's name.
	Leader string
	// Token is that of the term.
	Token int64
}

func leadershipOf(kv broker.KV) Leadership {
	return Leadership{Leader: candidateOf(kv.Key), Token: int64(kv.Created)}
}

// CandidateInfo is one candidate in line.
type CandidateInfo struct {
	// Name is the candidate's.
	Name string
	// Token is that of the term which the candidate has or will have.
	Token int64
	// Session is the one that the entry lives with.
	Session broker.SessionID
	// Resigning tells that the candidate was asked to give up.
	Resigning bool
}

func candidateInfo(space keys.Space, kv broker.KV) CandidateInfo {
	return CandidateInfo{
		Name: space.Parse(kv.Key).Candidate, Token: int64(kv.Created), Session: kv.Session, Resigning: isResigning(kv),
	}
}

// ElectionInfo is one election.
type ElectionInfo struct {
	// Name is the election's.
	Name string
	// Candidates are in line in this order; the first one leads.
	Candidates []CandidateInfo
}

// List returns the elections in which anyone stands, by name.
func List(ctx context.Context, b broker.Broker, namespace string) ([]ElectionInfo, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return nil, &ConfigError{"namespace", err}
	}
	all, _, err := broker.Collect(ctx, b, space.Elections())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, byOrder)
	byName := map[string]int{}
	var infos []ElectionInfo
	for _, kv := range all {
		p := space.Parse(kv.Key)
		if p.Kind != keys.Candidate {
			continue
		}
		i, ok := byName[p.Name]
		if !ok {
			i = len(infos)
			byName[p.Name] = i
			infos = append(infos, ElectionInfo{Name: p.Name})
		}
		infos[i].Candidates = append(infos[i].Candidates, candidateInfo(space, kv))
	}
	slices.SortFunc(infos, func(a, b ElectionInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// RequestResign asks the leader of an election to give up and stand again at the
// end, and returns whose leadership that is. It does not wait until it is over. Who
// has ceased to lead meanwhile is not asked, which is ErrNotLeader, and neither is
// the next.
func RequestResign(ctx context.Context, b broker.Broker, namespace, election string) (Leadership, error) {
	space, err := named(namespace, election)
	if err != nil {
		return Leadership{}, err
	}
	line, _, err := lineOf(ctx, b, space, election)
	if err != nil {
		return Leadership{}, err
	}
	if len(line) == 0 {
		return Leadership{}, fmt.Errorf("election %q: %w", election, ErrNoLeader)
	}
	first := line[0]
	r, err := broker.CommitOne(ctx, b, broker.Txn{
		If:   []broker.Cond{broker.Created(first.Key, first.Created)},
		Then: []broker.Op{broker.PutSession(first.Key, resignValue(candidateOf(first.Key)), first.Session)},
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
		return keys.Space{}, &ConfigError{"namespace", err}
	}
	if err := keys.CheckElectionName(election); err != nil {
		return keys.Space{}, &ConfigError{"election", err}
	}
	return space, nil
}

// Observe follows who leads an election without standing in it: it yields who
// does, and then every change, until ctx ends. An error is yielded and followed
// by another attempt, unless it is a ConfigError.
func Observe(ctx context.Context, b broker.Broker, namespace, election string) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		space, err := named(namespace, election)
		if err != nil {
			yield(Leadership{}, err)
			return
		}
		o := observer{broker: b, space: space, election: election, yield: yield}
		var wait backoff
		for ctx.Err() == nil && !o.enough {
			err := o.follow(ctx, &wait)
			if ctx.Err() != nil || o.enough {
				return
			}
			if !yield(Leadership{}, err) || !wait.pause(ctx, session.Derive(TTLDefault)) {
				return
			}
		}
	}
}

// observer is one iteration of Observe.
type observer struct {
	broker   broker.Broker
	space    keys.Space
	election string
	yield    func(Leadership, error) bool
	// line are the entries that are there, by key.
	line map[string]broker.KV
	// told is what was yielded last, nil before the first.
	told   *Leadership
	enough bool
}

// follow lists and watches until either fails or the caller has enough.
func (o *observer) follow(ctx context.Context, wait *backoff) error {
	line, rev, err := lineOf(ctx, o.broker, o.space, o.election)
	if err != nil {
		return err
	}
	wait.reset()
	o.line = map[string]broker.KV{}
	for _, kv := range line {
		o.line[kv.Key] = kv
	}
	if !o.tell() {
		return nil
	}
	for batch, err := range o.broker.Watch(ctx, o.space.Election(o.election), rev+1) {
		if err != nil {
			return err
		}
		for i, event := range batch.Events {
			switch {
			case event.Deleted:
				delete(o.line, event.KV.Key)
			case o.space.Parse(event.KV.Key).Kind == keys.Candidate:
				o.line[event.KV.Key] = event.KV
			}
			if i+1 < len(batch.Events) && batch.Events[i+1].KV.Modified == event.KV.Modified {
				continue // half a transaction shows a leader that never was
			}
			if !o.tell() {
				return nil
			}
		}
	}
	return ctx.Err()
}

// tell yields who leads if that has changed, and tells whether to go on.
func (o *observer) tell() bool {
	var first *broker.KV
	for _, kv := range o.line {
		if first == nil || byOrder(kv, *first) < 0 {
			first = &kv
		}
	}
	var now Leadership
	if first != nil {
		now = leadershipOf(*first)
	}
	if o.told != nil && *o.told == now {
		return true
	}
	o.told = &now
	o.enough = !o.yield(now, nil)
	return !o.enough
}
