package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/statemachine"
)

// place is where a key is in the history of the store.
type place struct {
	created, modified broker.Revision
	session           broker.SessionID
}

func placeOf(kv broker.KV) *place {
	return &place{created: kv.Created, modified: kv.Modified, session: kv.Session}
}

// task is all that is stored under one ID. A place is nil where its key does not
// exist. The values of properties and results are not kept: a namespace can have
// gigabytes of them.
type task struct {
	id                                       string
	key, props, owner, claim, state, command *place
	failed                                   *place
	spec                                     windlass.Spec
	node                                     string // of owner; empty if unreadable
	record                                   coordinator.Record
	now                                      statemachine.Record
	// corrupt are the keys among these that cannot be read, with why.
	corrupt map[keys.Kind]error
}

func (t *task) exists() bool { return t.key != nil || t.props != nil }

// ended tells that the stored state is terminal.
func (t *task) ended() bool {
	return t.state != nil && t.corrupt[keys.State] == nil && t.now.State.Terminal()
}

// readable tells whether what decides about running can be read.
func (t *task) readable() bool {
	return t.corrupt[keys.Task] == nil && t.corrupt[keys.State] == nil
}

func (t *task) blockers() []string { return depend.Blockers(t.id, t.spec.Needs) }

// node is a name below nodes/.
type node struct {
	name     string
	info     *place
	infos    windlass.NodeInfo
	corrupt  error
	commands map[string]*place
	// garbled are the commands that cannot be read.
	garbled map[string]error
}

func (n *node) handles(taskType string) bool {
	for _, t := range slices.Concat(n.infos.Types, n.infos.Pulls) {
		if t == taskType || t == windlass.AnyType {
			return true
		}
	}
	return false
}

// snapshot is a namespace at one revision.
type snapshot struct {
	revision broker.Revision
	layout   *broker.KV
	tasks    map[string]*task
	nodes    map[string]*node
	// known counts the keys of the layout, unknown all others.
	known, unknown int
}

// attemptsMax bounds how often a listing begins anew because its revision was
// compacted away meanwhile.
const attemptsMax = 5

func read(ctx context.Context, b broker.Broker, space keys.Space) (*snapshot, error) {
	for attempt := 1; ; attempt++ {
		s, err := readOnce(ctx, b, space)
		if err == nil || attempt == attemptsMax || !errors.Is(err, broker.ErrCompacted) {
			return s, err
		}
	}
}

func readOnce(ctx context.Context, b broker.Broker, space keys.Space) (*snapshot, error) {
	s := &snapshot{tasks: map[string]*task{}, nodes: map[string]*node{}}
	for page, err := range b.List(ctx, space.All()) {
		if err != nil {
			return nil, err
		}
		s.revision = page.Revision
		for _, kv := range page.KVs {
			s.take(space.Parse(kv.Key), kv)
		}
	}
	return s, nil
}

func (s *snapshot) take(p keys.Parsed, kv broker.KV) {
	s.known++
	switch p.Kind {
	case keys.Unknown:
		s.known--
		s.unknown++
	case keys.Layout:
		s.layout = &kv
	case keys.NodeInfo, keys.NodeCommand:
		s.takeNode(p, kv)
	case keys.Handover: // a hint that goes by itself
	default:
		t := s.tasks[p.Name]
		if t == nil {
			t = &task{id: p.Name, corrupt: map[keys.Kind]error{}}
			s.tasks[p.Name] = t
		}
		if err := t.take(p.Kind, kv); err != nil {
			t.corrupt[p.Kind] = err
		}
	}
}

func (s *snapshot) takeNode(p keys.Parsed, kv broker.KV) {
	n := s.nodes[p.Name]
	if n == nil {
		n = &node{name: p.Name, commands: map[string]*place{}, garbled: map[string]error{}}
		s.nodes[p.Name] = n
	}
	if p.Kind == keys.NodeInfo {
		n.info = placeOf(kv)
		n.corrupt = json.Unmarshal(kv.Value, &n.infos)
		return
	}
	n.commands[p.Command] = placeOf(kv)
	if err := checkCommand(kv.Value); err != nil {
		n.garbled[p.Command] = err
	}
}

// take reads one key of a task, and says what is wrong with it.
func (t *task) take(kind keys.Kind, kv broker.KV) (err error) {
	at := placeOf(kv)
	switch kind {
	case keys.Task:
		t.key = at
		if len(bytes.TrimSpace(kv.Value)) > 0 {
			err = json.Unmarshal(kv.Value, &t.spec)
		}
		if n := len(t.blockers()); err == nil && n > windlass.NeedsMax {
			err = fmt.Errorf("it waits for %d tasks; the limit is %d", n, windlass.NeedsMax)
		}
	case keys.Props:
		t.props = at
		if len(bytes.TrimSpace(kv.Value)) > 0 && !json.Valid(kv.Value) {
			err = errors.New("not JSON")
		}
	case keys.Owner:
		t.owner, t.node = at, mirror.ParseOwner(kv.Value)
		if t.node == "" {
			err = errors.New("it names no node")
		}
	case keys.Claim:
		t.claim = at
		err = json.Unmarshal(kv.Value, &t.record)
	case keys.Failed:
		t.failed = at
	case keys.State:
		t.state = at
		if t.now, err = statemachine.Parse(kv.Value); err != nil && fromTheFuture(kv.Value) {
			err = fmt.Errorf("%w: %w", errNewer, err)
		}
		t.now.Result = nil
	case keys.TaskCommand:
		t.command = at
		_, err = statemachine.ParseCommand(kv.Value)
	}
	return err
}

// errNewer marks a state that is well formed and not known.
var errNewer = errors.New("written by a newer version")

func fromTheFuture(state []byte) bool {
	var r struct {
		State statemachine.State `json:"state"`
	}
	return json.Unmarshal(state, &r) == nil && r.State != "" && !r.State.Valid()
}

// checkCommand accepts what nodes accept: JSON, or the plain text of the oldest
// layout.
func checkCommand(value []byte) error {
	if text := bytes.TrimSpace(value); len(text) > 0 && text[0] == '{' {
		return json.Unmarshal(text, &windlass.Command{})
	}
	return nil
}
