package zktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Ensemble is three servers with a quorum of two.
type Ensemble struct {
	// Members are the servers.
	Members []*Server
}

// StartEnsemble runs an ensemble for a test, or skips it.
func StartEnsemble(t testing.TB, options Options) *Ensemble {
	t.Helper()
	Skip(t)
	const members = 3
	ports, err := freePorts(3 * members)
	if err != nil {
		t.Fatal(err)
	}
	settings := []string{"initLimit=20", "syncLimit=10"}
	for i := range members {
		settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[members+i], ports[2*members+i]))
	}
	e := &Ensemble{}
	for i := range members {
		s := &Server{dir: t.TempDir(), address: address(ports[i]), options: options.withDefaults()}
		if err := s.configure(ports[i], settings); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "data", "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		e.Members = append(e.Members, s)
	}
	for _, s := range e.Members {
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// Addresses returns the addresses of all members.
func (e *Ensemble) Addresses() []string {
	var all []string
	for _, s := range e.Members {
		all = append(all, s.Address())
	}
	return all
}

// Leader returns the member that leads, nil while none does.
func (e *Ensemble) Leader(ctx context.Context) *Server {
	for _, s := range e.Members {
		if s.Mode(ctx) == "leader" {
			return s
		}
	}
	return nil
}
