package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// KeeperRole is the argument with which this program is a keeper.
const KeeperRole = "keep"

// Kept is a server that does not end with its standard input by itself.
type Kept struct {
	// Path and Args are the program, Args without its name. Env is added to the
	// environment.
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	// Dir is where it runs, Log the file for its output.
	Dir string `json:"dir"`
	Log string `json:"log"`
	// UID and GID are the user it runs as, if not as this one.
	UID uint32 `json:"uid,omitempty"`
	GID uint32 `json:"gid,omitempty"`
	// Stop is the signal that ends it in order, by number.
	Stop int `json:"stop"`
}

// Keep starts a server with its keeper.
func Keep(k Kept) (*Child, error) {
	order, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return Start(Self(KeeperRole, string(order)), func([]byte) {})
}

// stopMax bounds how long a server may take to end in order. It is less than
// endMax, so that the keeper outlives it.
const stopMax = endMax * 2 / 3

// RunKeeper is the body of a keeper: it runs the server until in ends or the
// server does by itself, which is an error.
func RunKeeper(in io.Reader, order string) error {
	var k Kept
	if err := json.Unmarshal([]byte(order), &k); err != nil {
		return fmt.Errorf("what to keep: %w", err)
	}
	log, err := os.OpenFile(k.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // nothing is written by this process
	cmd := exec.Command(k.Path, k.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.Dir, log, log
	cmd.Env = append(os.Environ(), k.Env...)
	if k.UID != 0 {
		cmd.SysProcAttr = As(k.UID, k.GID)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	over := make(chan struct{})
	var waiter sync.WaitGroup
	var ended error
	waiter.Go(func() { ended = cmd.Wait(); close(over) })
	told := make(chan struct{})
	// It is left behind when the server ends first: nothing interrupts a read of
	// standard input, and the process ends then.
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(io.Discard, in); close(told) })
	select {
	case <-over:
		text, _ := os.ReadFile(k.Log) // best effort: it only explains
		return fmt.Errorf("%s ended by itself: %w\n%s", k.Path, errors.Join(ended, errEnded), text[max(0, len(text)-tailBytesMax/2):])
	case <-told:
	}
	_ = cmd.Process.Signal(syscall.Signal(k.Stop)) // one that has ended is as good
	defer time.AfterFunc(stopMax, func() { _ = cmd.Process.Kill() }).Stop()
	waiter.Wait()
	return nil // how a server ends that was told to is its own affair
}

var errEnded = errors.New("nobody told it to")
