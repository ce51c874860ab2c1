package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/nodecommand"
	"github.com/windlass-go/windlass/internal/returns"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// snapshot is a namespace at one revision: a copy of the tasks, as a node has it, and what
// such a copy leaves out.
type snapshot struct {
	space keys.Space
	tasks *mirror.Tasks
	// nodes are the registered ones, by name.
	nodes map[string]*node
	// order has every key of the layout: those of tasks by ID, then those of nodes by
	// name; at has them by key. Values are not kept: a namespace can have gigabytes of
	// properties and results.
	order []*found
	at    map[string]*found
	// corrupt has the errors of values that cannot be read, by key; specs, states and
	// records are the others, by task.
	corrupt map[string]error
	specs   map[string]*windlass.Spec
	states  map[string]statemachine.State
	records map[string]coordinator.Record
	// cordons are those of nodes, registered or not. returns has when nodes are to be back.
	cordons map[string]windlass.Suspension
	returns map[string]time.Time
	// paused has the pauses of types, by type.
	paused map[string]windlass.Suspension
	deaths []events.Death
	// failing has the tasks whose runs keep failing, looping those whose handlers start again
	// and again what they run, lost those whose claims are lost again and again, live or not;
	// all say how.
	failing, looping, lost map[string]string
	// failed is how many tasks have failed for good within repeatedWithin.
	failed int
	// used is what the keys take, by the first part of their path.
	used   map[string]used
	layout []byte
	// renewals are those of the sessions, where the store does not end them by itself.
	renewals session.Renewals
}

// found is a key of a task or a node.
type found struct {
	Kind keys.Kind
	Name string
	broker.KV
}

func (f *found) compare(g *found) int {
	return cmp.Or(cmp.Compare(f.part(), g.part()), cmp.Compare(f.Name, g.Name), cmp.Compare(f.Kind, g.Kind), cmp.Compare(f.Key, g.Key))
}

// part orders keys of tasks before those of nodes.
func (f *found) part() int {
	switch f.Kind {
	case keys.NodeInfo, keys.NodeCordon, keys.NodeReturn, keys.NodeCommand, keys.NodeDeath, keys.TypePause:
		return 1
	}
	return 0
}

type node struct {
	name    string
	session broker.SessionID
	info    windlass.NodeInfo
	err     error
}

func (n *node) handles(taskType string) bool {
	types := slices.Concat(n.info.Types, n.info.Pulls)
	return slices.Contains(types, taskType) || slices.Contains(types, windlass.AnyType)
}

// attemptsMax bounds how often a listing is repeated because its revision was compacted.
const attemptsMax = 5

func read(ctx context.Context, b broker.Broker, space keys.Space) (*snapshot, error) {
	for attempt := 1; ; attempt++ {
		s := &snapshot{
			space: space, tasks: mirror.NewTasks(space, mirror.Keep{Kind: func([]byte) any { return nil }}), nodes: map[string]*node{},
			at: map[string]*found{}, corrupt: map[string]error{},
			specs: map[string]*windlass.Spec{}, states: map[string]statemachine.State{}, records: map[string]coordinator.Record{}, cordons: map[string]windlass.Suspension{}, returns: map[string]time.Time{}, paused: map[string]windlass.Suspension{},
			failing: map[string]string{}, looping: map[string]string{}, lost: map[string]string{}, used: map[string]used{},
		}
		err := s.list(ctx, b)
		if err == nil {
			s.renewals, err = session.ReadRenewals(ctx, b, space.Sessions())
		}
		if err == nil {
			return s, nil
		}
		if attempt == attemptsMax || !errors.Is(err, broker.ErrCompacted) {
			return nil, fmt.Errorf("list the namespace: %w", err)
		}
	}
}

func (s *snapshot) list(ctx context.Context, b broker.Broker) error {
	for page, err := range b.List(ctx, s.space.All()) {
		if err != nil {
			return err
		}
		for _, kv := range page.KVs {
			s.count(kv)
			p := s.space.Parse(kv.Key)
			if p.Kind == keys.Unknown {
				continue
			}
			s.tasks.Apply(broker.Batch{Events: []broker.Event{{KV: kv}}})
			if err := s.take(p, kv); err != nil {
				s.corrupt[kv.Key] = err
			}
			kv.Value = nil
			s.at[kv.Key] = &found{p.Kind, p.Name, kv}
		}
	}
	s.order = slices.SortedFunc(maps.Values(s.at), (*found).compare)
	return nil
}

// take reads the value of a key, which the copy of the tasks has already.
func (s *snapshot) take(p keys.Parsed, kv broker.KV) (err error) {
	switch p.Kind {
	case keys.Layout:
		s.layout = kv.Value
	case keys.NodeInfo:
		n := &node{name: p.Name, session: kv.Session}
		n.err = json.Unmarshal(kv.Value, &n.info)
		s.nodes[p.Name], err = n, n.err
	case keys.NodeCordon:
		var c windlass.Suspension
		err = json.Unmarshal(kv.Value, &c)
		s.cordons[p.Name] = c
	case keys.NodeReturn:
		var promise returns.Promise
		promise, err = returns.Parse(kv.Value, windlass.ReturnWithinMax, time.Now())
		s.returns[p.Name] = promise.Until
	case keys.TypePause:
		var c windlass.Suspension
		err = json.Unmarshal(kv.Value, &c)
		s.paused[p.Name] = c
	case keys.NodeDeath:
		d, ok := deaths.Parse(p.Name, p.Incarnation, kv)
		if !ok {
			return errors.New("no record of a death")
		}
		s.deaths = append(s.deaths, d)
	case keys.NodeCommand:
		_, err = nodecommand.Parse(kv.Value)
	case keys.Task:
		var spec windlass.Spec
		if len(bytes.TrimSpace(kv.Value)) > 0 {
			err = json.Unmarshal(kv.Value, &spec)
		}
		s.specs[p.Name] = &spec
	case keys.Props:
		if len(bytes.TrimSpace(kv.Value)) > 0 && !json.Valid(kv.Value) {
			err = errors.New("not JSON")
		}
	case keys.Owner:
		if s.tasks.Remains(p.Name).Owner == "" {
			err = errors.New("it names no node")
		}
	case keys.Claim:
		var r coordinator.Record
		if err = json.Unmarshal(kv.Value, &r); err == nil {
			s.records[p.Name] = r
			s.noteRestarts(p.Name, r.Restarts)
		}
	case keys.State:
		var r statemachine.Record
		if r, err = statemachine.Parse(kv.Value); err == nil {
			s.states[p.Name] = r.State
			s.noteFailures(p.Name, &r)
		} else if isNewer(kv.Value) {
			err = fmt.Errorf("%w: %w", errNewer, err)
		}
	case keys.History:
		var h statemachine.History
		if h, err = statemachine.ParseHistory(kv.Value); err == nil {
			s.noteLosses(p.Name, &h)
		}
	case keys.TaskCommand:
		_, err = statemachine.ParseCommand(kv.Value)
	}
	return err
}

// errNewer marks a state that is well formed and unknown.
var errNewer = errors.New("written by a newer version")

func isNewer(state []byte) bool {
	var r struct {
		State statemachine.State `json:"state"`
	}
	return json.Unmarshal(state, &r) == nil && r.State != "" && !r.State.Valid()
}

// get returns a key as it was found, zero for none.
func (s *snapshot) get(key string) broker.KV { return cmp.Or(s.at[key], &found{}).KV }

// registered returns the nodes, by name.
func (s *snapshot) registered() []*node {
	return slices.SortedFunc(maps.Values(s.nodes), func(a, b *node) int { return cmp.Compare(a.name, b.name) })
}

// live returns the tasks that exist, by ID.
func (s *snapshot) live() []*mirror.Task {
	return slices.SortedFunc(s.tasks.All(), func(a, b *mirror.Task) int { return cmp.Compare(a.ID, b.ID) })
}

// claimed returns the claims, by the IDs of their tasks, which need not exist.
func (s *snapshot) claimed() []*mirror.Task {
	var claimed []*mirror.Task
	for _, k := range s.order {
		if k.Kind == keys.Owner {
			claimed = append(claimed, s.tasks.Remains(k.Name))
		}
	}
	return claimed
}

// leftover reports whether a key is the record of a claim that nobody holds, and that no
// session will remove.
func (s *snapshot) leftover(k *found) bool {
	return k.Kind == keys.Claim && k.Session == 0 && s.at[s.space.Owner(k.Name)] == nil
}

// spec returns the spec of a task, zero if it has only properties.
func (s *snapshot) spec(t *mirror.Task) *windlass.Spec {
	return cmp.Or(s.specs[t.ID], &windlass.Spec{})
}

// readable reports whether the spec and the state can be read.
func (s *snapshot) readable(t *mirror.Task) bool {
	return s.corrupt[s.space.Task(t.ID)] == nil && s.corrupt[s.space.State(t.ID)] == nil
}

// ended reports whether the stored state is terminal.
func (s *snapshot) ended(t *mirror.Task) bool { return s.states[t.ID].Terminal() }
