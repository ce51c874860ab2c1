package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func TestARestartKeepsTheData(t *testing.T) {
	dir := t.TempDir()
	var revision broker.Revision
	for round := range 3 {
		s := start(t, fast(dir))
		b := s.Broker()
		if round > 0 {
			kv, err := b.Get(t.Context(), "/a")
			if err != nil || kv.Modified != revision {
				t.Fatalf("round %d: %+v, %v; want revision %d", round, kv, err, revision)
			}
		}
		revision = mustPut(t, b, "/a")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATemporaryFolderGoesWithTheServer(t *testing.T) {
	s := start(t, fast(""))
	mustPut(t, s.Broker(), "/a")
	info, err := os.Stat(s.Dir())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir(), err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("not done")
	}
}

func TestANormalStartAndStopIsQuiet(t *testing.T) {
	// In virtual time, because etcd reports a slow machine.
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := start(t, embedded.Config{UnsafeNoFsync: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		b := s.Broker()
		mustPut(t, b, "/a")
		if err := b.Revoke(t.Context(), 42); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if log.Len() > 0 {
			t.Errorf("it logged\n%s", log.String())
		}
	})
}

func TestABrokerIsClosedAloneOrWithItsServer(t *testing.T) {
	s := start(t, fast(""))
	first, second := s.Broker(), s.Broker()
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Error(err)
	}
	if _, err := first.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("%v", err)
	}
	mustPut(t, second, "/a")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, b := range []broker.Broker{second, s.Broker()} {
		if _, err := b.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

func TestAFullStoreSaysSoAndStillFreesAndRenews(t *testing.T) {
	config := fast("")
	config.QuotaBytes = 18 << 20
	b := start(t, config).Broker()
	session := mustGrant(t, b, sessionsFolder, broker.ProgressMax)
	mustPut(t, b, "/kept")
	fill(t, b)
	results := b.Commit(t.Context(), put("/more"), broker.Txn{Then: []broker.Op{broker.DeleteTree("/fill/")}}, put("/most"))
	if !errors.Is(results[0].Err, broker.ErrNoSpace) || results[1].Err != nil || !errors.Is(results[2].Err, broker.ErrNoSpace) {
		t.Errorf("%+v", results)
	}
	if _, err := b.Get(t.Context(), "/kept"); err != nil {
		t.Error(err)
	}
	if _, err := b.KeepAlive(t.Context(), session.ID); err != nil {
		t.Error(err)
	}
	if _, err := b.Grant(t.Context(), "", broker.ProgressMax); !errors.Is(err, broker.ErrNoSpace) {
		t.Errorf("grant: %v", err)
	}
}

// TestAStartThatWasCutShortCanBeRepeated cuts the first start of a folder short after several
// times. etcd alone would leave a log without a member, and hang in every later start.
func TestAStartThatWasCutShortCanBeRepeated(t *testing.T) {
	dir := privateDir(t)
	synctest.Test(t, func(t *testing.T) {
		ready, cuts := time.Duration(0), 0
		for cut := time.Duration(0); ready == 0; cut += 20 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), cut)
			s, err := embedded.Start(ctx, embedded.Config{Dir: dir, UnsafeNoFsync: true})
			cancel()
			switch {
			case err == nil:
				ready = cut
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			case errors.Is(err, context.DeadlineExceeded):
				cuts++
			default:
				t.Fatalf("cut after %v: %v", cut, err)
			}
		}
		if cuts < 3 {
			t.Errorf("only %d starts were cut short; the next took less than %v", cuts, ready)
		}
		mustPut(t, start(t, embedded.Config{Dir: dir, UnsafeNoFsync: true}).Broker(), "/a")
	})
}

// privateDir returns a folder that only this user can enter.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	chmod(t, dir, 0o700)
	return dir
}

// TestAnUnfinishedFirstStartIsBegunAnew finds the files of a killed process.
func TestAnUnfinishedFirstStartIsBegunAnew(t *testing.T) {
	dir := t.TempDir()
	wal := filepath.Join(dir, "etcd", "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "windlass.starting"), filepath.Join(wal, "0.tmp")} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	revision := mustPut(t, start(t, fast(dir)).Broker(), "/a")
	if _, err := os.Stat(filepath.Join(dir, "windlass.starting")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mark is still there (%v): the next start would remove revision %d", err, revision)
	}
}

func TestAnImpossibleConfigurationIsRefused(t *testing.T) {
	for want, config := range map[string]embedded.Config{
		"a quota of -1":     {QuotaBytes: -1},
		"a history of 1ns":  {History: 1},
		"a tick of 1h0m0s;": {Tick: 3600e9},
	} {
		if _, err := embedded.Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", config, err)
		}
	}
}

// The values of users are not logged at any level.
func TestWhatIsWrittenIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	config := fast("")
	config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := start(t, config)
	mustCommit(t, s.Broker(), broker.Put("/a", []byte("only for us")))
	if _, err := s.Broker().Get(t.Context(), "/a"); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "only for us") || !strings.Contains(text, "level=DEBUG") {
		t.Errorf("the log has %d bytes: %.2000s", len(text), text)
	}
}
