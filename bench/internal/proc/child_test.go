package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The roles of this test's binary, when it is a process that was started.
const (
	echoRole = "echo"
	failRole = "fail"
	busyRole = "busy"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[0] == "peers" {
		os.Exit(role(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func role(args []string) int {
	switch args[0] {
	case echoRole:
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(lines.Text())
		}
	case failRole:
		fmt.Fprintln(os.Stderr, "this is why")
		return 3
	case busyRole:
		var ended atomic.Bool
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); ended.Store(true) }()
		for !ended.Load() {
			runtime.Gosched()
		}
	case KeeperRole:
		if err := RunKeeper(os.Stdin, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func TestChild_EndsWithItsInput(t *testing.T) {
	child, err := Start(Self(echoRole), func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-child.Done():
	default:
		t.Error("it was closed and is not done")
	}
}

func TestChild_SaysWhyItFailed(t *testing.T) {
	child, err := Start(Self(failRole), func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if err := child.Err(); err == nil || !strings.Contains(err.Error(), "this is why") || !strings.Contains(err.Error(), "peers fail") {
		t.Errorf("it says %v", err)
	}
	if err := child.Close(); err == nil {
		t.Error("its end is forgotten")
	}
}

func TestChild_ThatCannotStartIsAnError(t *testing.T) {
	if _, err := Start(exec.Command(filepath.Join(t.TempDir(), "nothing")), func([]byte) {}); err == nil {
		t.Error("nothing was started")
	}
}

func kept(t *testing.T, script string) Kept {
	t.Helper()
	dir := t.TempDir()
	return Kept{Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Log: filepath.Join(dir, "log"), Stop: int(syscall.SIGTERM)}
}

func TestKeeper_EndsItsServerWhenItsInputEnds(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	child, err := Keep(kept(t, "trap 'echo ended >"+fifo+"; exit 0' TERM; echo up >"+fifo+"; while :; do sleep 0.01; done"))
	if err != nil {
		t.Fatal(err)
	}
	line := func() string {
		text, err := os.ReadFile(fifo)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if got := line(); got != "up" {
		t.Fatalf("it says %q", got)
	}
	closed := make(chan error, 1)
	go func() { closed <- child.Close() }()
	if got := line(); got != "ended" {
		t.Errorf("it says %q", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestKeeper_TellsOfAServerThatEndsByItself(t *testing.T) {
	child, err := Keep(kept(t, "echo broken; exit 7"))
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if err := child.Close(); err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("it says %v", err)
	}
}
