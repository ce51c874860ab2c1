package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// Commit implements broker.Broker. Each transaction takes the lock separately, so that
// those of other connections may come between, as with a real store.
func (b *Broker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	results := make([]broker.Result, len(txns))
	for i, txn := range txns {
		err := txn.Validate()
		if err == nil {
			err = b.usable(ctx, "commit", "")
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i] = b.store.commit(txn)
	}
	return results
}

func (s *Store) commit(txn broker.Txn) broker.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	branch, ok := txn.Then, true
	if slices.ContainsFunc(txn.If, func(c broker.Cond) bool { return !s.holds(c) }) {
		branch, ok = txn.Else, false
	}
	// All operations are checked before any is applied.
	for _, op := range branch {
		if err := s.checkPut(op, branch); err != nil {
			return broker.Result{Err: err}
		}
	}
	var reads []*broker.KV
	for _, op := range branch {
		if op.Kind == broker.OpRead {
			reads = append(reads, clone(s.keys.get(op.Key)))
		}
	}
	var events []broker.Event
	for _, op := range branch {
		events = append(events, s.apply(op)...)
	}
	s.record(events)
	return broker.Result{OK: ok, Revision: s.revision, Reads: reads}
}

func clone(kv *broker.KV) *broker.KV {
	if kv == nil {
		return nil
	}
	c := *kv
	return &c
}

func (s *Store) holds(c broker.Cond) bool {
	kv := s.keys.get(c.Key)
	switch c.Kind {
	case broker.CondExists:
		return kv != nil
	case broker.CondAbsent:
		return kv == nil
	case broker.CondCreated:
		return kv != nil && kv.Created == c.Revision
	case broker.CondModified:
		return kv != nil && kv.Modified == c.Revision
	default:
		panic(fmt.Sprintf("memory: condition kind %d was validated", c.Kind))
	}
}

// apply applies one operation at the next revision, and returns the changes.
func (s *Store) apply(op broker.Op) []broker.Event {
	switch op.Kind {
	case broker.OpPut:
		return []broker.Event{s.put(op)}
	case broker.OpDelete:
		if kv := s.keys.get(op.Key); kv != nil {
			return []broker.Event{s.remove(kv)}
		}
	case broker.OpDeleteTree:
		var events []broker.Event
		for _, kv := range s.keys.below(op.Key) {
			events = append(events, s.remove(kv))
		}
		return events
	}
	return nil
}

func (s *Store) put(op broker.Op) broker.Event {
	next := s.revision + 1
	kv := &broker.KV{Key: op.Key, Value: bytes.Clone(op.Value), Created: next, Modified: next, Session: op.Session}
	if old := s.keys.get(op.Key); old != nil {
		kv.Created = old.Created
		s.detach(old)
	}
	if kv.Session != 0 {
		s.sessions[kv.Session].keys[kv.Key] = struct{}{}
	}
	s.keys.set(kv)
	return broker.Event{KV: *kv}
}

func (s *Store) remove(kv *broker.KV) broker.Event {
	s.detach(kv)
	s.keys.remove(pathOf(kv.Key))
	return broker.Event{Deleted: true, KV: broker.KV{Key: kv.Key, Modified: s.revision + 1}}
}

// checkPut refuses a put on a session that is gone, and one that breaks the rule that a
// session's key is a leaf. etcd accepts the latter, but a ZooKeeper ensemble does not.
func (s *Store) checkPut(op broker.Op, branch []broker.Op) error {
	if op.Kind != broker.OpPut {
		return nil
	}
	if op.Session != 0 && s.sessions[op.Session] == nil {
		return broker.NewError("commit", op.Key, broker.ErrSessionExpired, nil)
	}
	for i := 1; i < len(op.Key); i++ {
		if op.Key[i] == '/' && s.onSession(op.Key[:i], branch) {
			return broker.NewError("commit", op.Key, broker.ErrInvalid,
				fmt.Errorf("%s lives with a session, so nothing may be put below it", op.Key[:i]))
		}
	}
	if op.Session == 0 {
		return nil
	}
	for _, kv := range s.keys.below(op.Key + "/") {
		if !slices.ContainsFunc(branch, func(o broker.Op) bool { return deletes(o, kv.Key) }) {
			return broker.NewError("commit", op.Key, broker.ErrInvalid,
				fmt.Errorf("a session's key is a leaf, but there is %s", kv.Key))
		}
	}
	return nil
}

// onSession reports whether a key will belong to a session after a transaction.
func (s *Store) onSession(key string, branch []broker.Op) bool {
	for _, op := range branch {
		if op.Kind == broker.OpPut && op.Key == key {
			return op.Session != 0
		}
		if deletes(op, key) {
			return false
		}
	}
	kv := s.keys.get(key)
	return kv != nil && kv.Session != 0
}

func deletes(op broker.Op, key string) bool {
	return op.Kind == broker.OpDelete && op.Key == key ||
		op.Kind == broker.OpDeleteTree && strings.HasPrefix(key, op.Key)
}
