package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"time"
)

// readyMax bounds how long a server may take to answer, on a loaded machine.
const readyMax = time.Minute

// readyEvery is how often one that has just been started is asked.
const readyEvery = 20 * time.Millisecond

// Folder makes a temporary folder for a run that servers of other users may pass.
func Folder() (dir string, remove func() error, err error) {
	if dir, err = os.MkdirTemp("", "windlass-peers-"); err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return dir, remove, nil
}

// ports finds ports of this machine that nobody listens on.
func ports(n int) ([]int, error) {
	var found []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		found = append(found, l.Addr().(*net.TCPAddr).Port)
	}
	return found, nil
}

// until asks a server that is being started whether it is ready, until it is, ends
// or has had enough time.
func until(ctx context.Context, what string, over <-chan struct{}, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyMax, fmt.Errorf("not within %v", readyMax))
	defer cancel()
	again := time.NewTicker(readyEvery)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-over:
			return fmt.Errorf("%s ended while it started", what)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// password is one that nobody can guess.
func password() string { return rand.Text() }

// number is how a version begins.
var number = regexp.MustCompile(`\d+(\.\d+)+`)

// versionOf is what a program says of itself, empty if it fails.
func versionOf(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return ""
	}
	return number.FindString(string(out))
}
