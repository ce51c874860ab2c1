//go:build e2e

package zookeeper

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// A transaction that would give a key of a session children is refused, and other
// transactions of the call are not.
func TestCommit_AKeyOfASessionIsALeaf(t *testing.T) {
	_, _, b := startTest(t)
	s := mustGrant(t, b, 20*time.Second)
	mustCommit(t, b, putSession("/leaf", s.ID), put("/parent/child", nil))
	for i, r := range b.Commit(t.Context(), put("/leaf/below", nil), put("/leaf/far/below", nil), putSession("/parent", s.ID), put("/fine", nil)) {
		if i == 3 && (r.Err != nil || !r.OK) || i < 3 && (!errors.Is(r.Err, broker.ErrInvalid) || broker.MaybeApplied(r.Err)) {
			t.Errorf("transaction %d: %+v", i, r)
		}
	}
}

func TestCommit_AKeyThatChangesItsSessionKeepsItsCreation(t *testing.T) {
	_, _, b := startTest(t)
	var ids [2]broker.SessionID
	for i := range ids {
		ids[i] = mustGrant(t, b, 20*time.Second).ID
	}
	first := mustCommit(t, b, put("/a", []byte("0")))[0].Revision
	for i, id := range []broker.SessionID{ids[0], ids[1], 0} {
		value := fmt.Append(nil, i)
		r := mustCommit(t, b, broker.Txn{If: []broker.Cond{broker.Created("/a", first)}, Then: []broker.Op{{Kind: broker.OpPut, Key: "/a", Value: value, Session: id}}})[0]
		kv, err := b.Get(t.Context(), "/a")
		if err != nil || kv.Created != first || kv.Modified != r.Revision || kv.Session != id || string(kv.Value) != string(value) {
			t.Errorf("step %d: %+v, %v", i, kv, err)
		}
		for batch, err := range b.Watch(t.Context(), "/a", r.Revision) {
			if err != nil || len(batch.Events) != 1 || batch.Events[0].KV.Created != first || batch.Events[0].KV.Session != id {
				t.Errorf("step %d: %+v, %v", i, batch, err)
			}
			break
		}
	}
	for _, id := range ids {
		if err := b.Revoke(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Get(t.Context(), "/a"); err != nil {
		t.Errorf("after both sessions: %v", err)
	}
}

// The servers would close the connection.
func TestCommit_WhatTheServersDoNotTakeIsTooLarge(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick, MessageBytesMax: MessageBytesDefault})
	config := testConfig(server.Address())
	config.MessageBytes = 0
	b := openTest(t, config)
	half := make([]byte, broker.ValueBytesMax)
	results := b.Commit(t.Context(), put("/a", half), broker.Txn{Then: []broker.Op{broker.Put("/b", half), broker.Put("/c", half)}}, put("/d", nil))
	if results[0].Err != nil || results[2].Err != nil {
		t.Errorf("%v, %v", results[0].Err, results[2].Err)
	}
	if err := results[1].Err; !errors.Is(err, broker.ErrTooLarge) || !strings.Contains(err.Error(), "the servers take 1048575") {
		t.Errorf("%v", err)
	}
}
