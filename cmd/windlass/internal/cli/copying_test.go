package cli

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/keys"
)

// newCopier is between two stores in memory.
func newCopier(t *testing.T) *copier {
	t.Helper()
	space, err := keys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	a, b := memory.New(), memory.New()
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return &copier{from: a.Broker(), to: b.Broker(), space: space}
}

func commitTo(t *testing.T, b broker.Broker, ops ...broker.Op) {
	t.Helper()
	if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
}

func (c *copier) mustDiffer(t *testing.T, when string, want ...difference) {
	t.Helper()
	got, err := c.compare(t.Context())
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("%s: %v\n%s", when, err, diff)
	}
}

func TestCopy_CopiesPersistentKeysAndListsDifferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCopier(t)
		s, err := c.from.Grant(t.Context(), "", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		commitTo(t, c.from, broker.Put("/test/tasks/a", []byte("spec")), broker.Put("/test/tasks/a/props", []byte("{}")),
			broker.Put("/test/state/b", []byte("done")), broker.Put("/test/tree/a_x/b_x", []byte("job")), broker.Put("/test/of-others", []byte("?")),
			broker.PutSession("/test/nodes/n/info", nil, s.ID), broker.PutSession("/test/claims/a", nil, s.ID),
			broker.PutSession("/test/tasks/a/owner", nil, s.ID), broker.Put("/test/commands/a", nil), broker.Put("/elsewhere/a", nil))
		c.mustDiffer(t, "before the copy", difference{"/test/of-others", "missing"}, difference{"/test/state/b", "missing"},
			difference{"/test/tasks/a", "missing"}, difference{"/test/tasks/a/props", "missing"}, difference{"/test/tree/a_x/b_x", "missing"})
		done, err := c.run(t.Context(), false)
		if err != nil || done != (copied{Tasks: 1, Keys: 5, Written: 5, Passes: 2}) {
			t.Errorf("%+v, %v", done, err)
		}
		c.mustDiffer(t, "after the copy")
		if _, err := c.run(t.Context(), false); !errors.Is(err, errCopyNotEmpty) {
			t.Errorf("a second copy: %v", err)
		}
		commitTo(t, c.from, broker.Put("/test/tasks/a", []byte("other")))
		commitTo(t, c.to, broker.Put("/test/state/c", nil))
		c.mustDiffer(t, "after changes", difference{"/test/state/c", "extra"}, difference{"/test/tasks/a", "other"})
		if _, err := c.run(t.Context(), true); err != nil {
			t.Error(err)
		}
		c.mustDiffer(t, "after --replace")
	})
}

// Keys are put, changed and deleted while they are copied.
func TestCopy_CatchesUpWithConcurrentChanges(t *testing.T) {
	c := newCopier(t)
	for i := range 2000 {
		commitTo(t, c.from, broker.Put(fmt.Sprintf("/test/tasks/%d", i), nil))
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 1500 {
			commitTo(t, c.from, broker.Delete(fmt.Sprintf("/test/tasks/%d", i)), broker.Put(fmt.Sprintf("/test/tasks/%d", 1999-i/4), []byte("x")),
				broker.Put(fmt.Sprintf("/test/tasks/new-%d", i), nil))
		}
	})
	_, err := c.run(t.Context(), false)
	writer.Wait()
	if err == nil || errors.Is(err, errCopyBehind) { // before the writer was done
		_, err = c.run(t.Context(), true)
	}
	if err != nil {
		t.Error(err)
	}
	c.mustDiffer(t, "after the writer")
}
