//go:build e2e

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestScript_WithABroker(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // what it starts would inherit that it is ignored
	runScripts(t, "e2e")
}
