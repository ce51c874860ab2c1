package results

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// between calls a function before the second Commit.
type between struct {
	broker.Broker
	commits int
	then    func()
}

func (b *between) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if b.commits++; b.commits == 2 {
		b.then()
	}
	return b.Broker.Commit(ctx, txns...)
}

func TestRead_ATaskThatEndsMeanwhileIsNotMissing(t *testing.T) {
	store := memory.New()
	defer store.Close()
	space, err := keys.New("/r")
	if err != nil {
		t.Fatal(err)
	}
	write := func(ops ...broker.Op) {
		t.Helper()
		if _, err := broker.CommitOne(t.Context(), store.Broker(), broker.Txn{Then: ops}); err != nil {
			t.Fatal(err)
		}
	}
	write(broker.Put(space.Task("ends"), []byte("{}")), broker.Put(space.Task("live"), []byte("{}")), broker.Put(space.Props("older"), []byte("1")),
		broker.Put(space.State("left"), []byte(`{"state":"completed","result":7}`)))
	b := &between{Broker: store.Broker(), then: func() {
		write(broker.Delete(space.Task("ends")), broker.Put(space.State("ends"), []byte(`{"state":"completed","result":8}`)))
	}}
	found, missing, err := Read(t.Context(), b, space, []string{"left", "ends", "live", "older", "gone"})
	if err != nil || !slices.Equal(missing, []string{"gone"}) || len(found) != 2 || string(found["left"]) != "7" || string(found["ends"]) != "8" {
		t.Errorf("%s, of %q nothing is kept, %v", found, missing, err)
	}
}

func TestRead_WhatIsKeptIsReadOnce(t *testing.T) {
	store := memory.New()
	defer store.Close()
	space, err := keys.New("/r")
	if err != nil {
		t.Fatal(err)
	}
	state := broker.Put(space.State("a"), []byte(`{"state":"failed"}`))
	if _, err := broker.CommitOne(t.Context(), store.Broker(), broker.Txn{Then: []broker.Op{state}}); err != nil {
		t.Fatal(err)
	}
	b := &between{Broker: store.Broker(), then: func() { t.Error("it is read again") }}
	if found, missing, err := Read(t.Context(), b, space, []string{"a"}); err != nil || len(found)+len(missing) > 0 {
		t.Errorf("%v, %q, %v", found, missing, err)
	}
	var name *invalid.Input
	if _, _, err := Read(t.Context(), b, space, []string{""}); !errors.As(err, &name) {
		t.Errorf("an ID that cannot be: %v", err)
	}
}
