package exectask

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the supervisor and, to be killed and frozen, the node.
const (
	supervisorRole = "exec-supervisor"
	clumsyRole     = "clumsy-supervisor"
	absentRole     = "absent-supervisor"
	nodeRole       = "exec-node"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervisorRole:
			os.Exit(SuperviseMain(SocketFD))
		case clumsyRole:
			if f, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = f.Close()
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			os.Exit(SuperviseMain(SocketFD))
		case absentRole:
			os.Exit(0)
		case nodeRole:
			if err := nodeMain(os.Stdin); err != nil {
				fmt.Fprintln(os.Stderr, "node:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func readAll(t *testing.T, dir, task string) string {
	t.Helper()
	f, err := ReadLog(dir, task)
	must(t, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	must(t, err)
	return string(text)
}

// eventually polls for what a test waits for.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(limit); !ok(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
