package top

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
)

// With hangups ignored, as by nohup, it never ended without its terminal.
func TestRun_EndsWithItsTerminal(t *testing.T) {
	store := memory.New()
	defer store.Close()
	b := store.Broker()
	defer b.Close()
	client, err := windlass.NewClient(b, "")
	if err != nil {
		t.Fatal(err)
	}
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), Config{
			Broker: b, Client: client, Namespace: windlass.NamespaceDefault, Refresh: RefreshMin, Column: ByID, In: in, Out: io.Discard, Environ: []string{"TERM=xterm"},
		})
	}()
	select {
	case err := <-ended:
		t.Fatalf("it has ended before its terminal: %v", err)
	case <-time.After(4 * RefreshMin):
	}
	if err := typed.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errGone) {
			t.Errorf("it has ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on without its terminal")
	}
}
