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

// A key of a session is a leaf: what would make it another is refused, and harms no
// other transaction of its call.
func TestCommit_AKeyOfASessionIsALeaf(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	b := openTest(t, testConfig(server.Address()))
	defer closeTest(t, b)
	s, err := b.Grant(t.Context(), "", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	session := func(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.PutSession(key, nil, s.ID)}} }
	mustCommit(t, b, session("/leaf"), put("/parent/child", nil))
	for i, r := range b.Commit(t.Context(), put("/leaf/below", nil), put("/leaf/far/below", nil), session("/parent"), put("/fine", nil)) {
		if i == 3 && (r.Err != nil || !r.OK) || i < 3 && (!errors.Is(r.Err, broker.ErrInvalid) || broker.MaybeApplied(r.Err)) {
			t.Errorf("transaction %d: %+v", i, r)
		}
	}
}

// A key changes from one session to another, or to none, and stays the same key.
func TestCommit_AKeyThatChangesItsSessionKeepsItsCreation(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	b := openTest(t, testConfig(server.Address()))
	defer closeTest(t, b)
	var ids [2]broker.SessionID
	for i := range ids {
		s, err := b.Grant(t.Context(), "", 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = s.ID
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

// What the servers would answer by closing the connection is not sent.
func TestCommit_WhatTheServersDoNotTakeIsTooLarge(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick, MessageBytesMax: MessageBytesDefault})
	config := testConfig(server.Address())
	config.MessageBytes = 0
	b := openTest(t, config)
	defer closeTest(t, b)
	half := make([]byte, broker.ValueBytesMax)
	results := b.Commit(t.Context(), put("/a", half), broker.Txn{Then: []broker.Op{broker.Put("/b", half), broker.Put("/c", half)}}, put("/d", nil))
	if results[0].Err != nil || results[2].Err != nil {
		t.Errorf("%v, %v", results[0].Err, results[2].Err)
	}
	if err := results[1].Err; !errors.Is(err, broker.ErrTooLarge) || !strings.Contains(err.Error(), "the servers take 1048575") {
		t.Errorf("%v", err)
	}
}
