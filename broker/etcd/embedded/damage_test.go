package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/windlass-go/windlass/broker"
)

// filledFolder returns a data folder that was closed normally, with enough data for a
// snapshot.
func filledFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	b := s.Broker()
	var writers sync.WaitGroup
	for g := range 16 {
		writers.Go(func() {
			for range 800 {
				if _, err := broker.CommitOne(context.Background(), b, broker.Txn{Then: []broker.Op{broker.Put(fmt.Sprint("/x/", g), nil)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	if err := errors.Join(b.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAFolderOfWhichAPartIsMissingIsDamaged(t *testing.T) {
	for _, part := range []string{"snap/db", "wal"} {
		dir := filledFolder(t)
		gone := filepath.Join(dir, dataName, "member", part)
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
		if damaged, ok := errors.AsType[*DamagedError](err); !ok || damaged.Path != gone {
			t.Errorf("without %s: %v", part, err)
		}
		if err == nil {
			t.Error(s.Close())
		}
	}
}

func TestADatabaseThatIsInUseIsNotDamaged(t *testing.T) {
	dir := filledFolder(t)
	db, err := bbolt.Open(filepath.Join(dir, dataName, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
	if _, damaged := errors.AsType[*DamagedError](err); err == nil || damaged || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
