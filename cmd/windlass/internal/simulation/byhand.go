package simulation

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
)

// This file has the writes of operators with the store's own tools. Some of them break
// the assumptions of S2. All other guarantees must hold nevertheless.

// owned lists the owner keys.
func (w *world) owned() []broker.KV {
	kvs, _, err := broker.Collect(w.t.Context(), w.store, "/test/tasks/")
	if err != nil {
		return nil // the store is stopped
	}
	return slices.DeleteFunc(kvs, func(kv broker.KV) bool {
		return !strings.HasSuffix(kv.Key, "/owner") || kv.Session == 0
	})
}

func (w *world) someOwned() (broker.KV, bool) {
	kvs := w.owned()
	if len(kvs) == 0 {
		return broker.KV{}, false
	}
	return kvs[w.random.IntN(len(kvs))], true
}

// operate writes as an operator, and announces that to the log.
func (w *world) operate(ops ...broker.Op) bool {
	for _, op := range ops {
		w.log.ByHand(op.Key)
	}
	_, err := broker.CommitOne(w.t.Context(), w.store, broker.Txn{Then: ops})
	return err == nil
}

func (w *world) revokeSession() bool {
	kv, ok := w.someOwned()
	return ok && w.store.Revoke(w.t.Context(), kv.Session) == nil
}

func (w *world) deleteOwner() bool {
	kv, ok := w.someOwned()
	return ok && w.operate(broker.Delete(kv.Key))
}

// robNode deletes all owner keys of a node whose requests to end claims are
// being lost.
func (w *world) robNode(p *process) {
	w.use(p.Faults(), `lose-request 300ms on commit below "/test/" chance 0.6`)
	w.sleep(2 * time.Second)
	for _, kv := range w.owned() {
		if strings.Contains(string(kv.Value), `"`+p.Name()+`"`) {
			w.operate(broker.Delete(kv.Key))
		}
	}
}

// forgeOwner replaces an owner key by one without a session, until all is healed.
func (w *world) forgeOwner() bool {
	kv, ok := w.someOwned()
	if !ok || !w.operate(broker.Delete(kv.Key)) || !w.operate(broker.Put(kv.Key, []byte("an operator"))) {
		return false
	}
	w.corrupt = append(w.corrupt, kv.Key)
	return true
}

func (w *world) deleteRegistration() bool {
	return w.onNode(func(p *process) { w.operate(broker.Delete("/test/nodes/" + p.Name() + "/info")) }, false)
}

// corruptValue writes an unreadable value, or unknown keys.
func (w *world) corruptValue() bool {
	w.submitted++
	id := "corrupt-" + uuid.NewSHA1(uuid.Nil, []byte{byte(w.submitted), byte(w.submitted >> 8)}).String()
	key := "/test/tasks/" + id
	switch w.random.IntN(6) {
	case 0:
		w.corrupt = append(w.corrupt, key)
		return w.operate(broker.Put(key, []byte(`{"type":`)))
	case 1:
		w.corrupt = append(w.corrupt, key, "/test/state/"+id)
		return w.operate(broker.Put(key, nil), broker.Put("/test/state/"+id, []byte(`{"state":"melted"}`)))
	case 2:
		ghost := "/test/nodes/ghost/info"
		w.corrupt = append(w.corrupt, ghost)
		return w.operate(broker.Put(ghost, []byte("\xff{")))
	case 3:
		return w.onNode(func(p *process) {
			command := "/test/nodes/" + p.Name() + "/commands/" + id
			w.corrupt = append(w.corrupt, command)
			w.operate(broker.Put(command, []byte(`{"command":`)))
		}, false)
	case 4:
		w.corrupt = append(w.corrupt, key, key+"/owner")
		return w.operate(broker.Put(key, nil), broker.Put(key+"/owner", []byte("{")))
	default:
		// Unknown keys must still exist in the end.
		return w.operate(broker.Put("/test/unknown", []byte("kept")), broker.Put("/test/unknown/deeper/key", nil),
			broker.Put("/test/elections/x/y", []byte("kept")))
	}
}

// unknownKept reports whether the unknown keys still exist, if they were ever written.
func (w *world) unknownKept() bool {
	_, first := w.store.Get(w.t.Context(), "/test/unknown")
	_, second := w.store.Get(w.t.Context(), "/test/elections/x/y")
	return errors.Is(first, broker.ErrNotFound) == errors.Is(second, broker.ErrNotFound)
}

// mendCorrupt deletes the keys that were written by hand.
func (w *world) mendCorrupt() {
	for _, key := range w.corrupt {
		w.operate(broker.Delete(key))
		if id, ok := strings.CutPrefix(key, "/test/tasks/"); ok && !strings.HasSuffix(key, "/owner") {
			w.log.Deleting(id)
			w.log.ByHand(key + "/owner")
			w.log.ByHand(key + "/" + history.Newer)
			w.operate(broker.DeleteTree(key+"/"), broker.Delete("/test/claims/"+id))
		}
	}
	w.corrupt = nil
}
