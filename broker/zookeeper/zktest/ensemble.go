package zktest

import (
	"context"
	"fmt"
	"net"
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
	skip(t)
	const members = 3
	places, err := places(members, options.Hosts)
	if err != nil {
		t.Fatal(err)
	}
	options.Settings = append([]string{"initLimit=20", "syncLimit=10"}, options.Settings...) // the last one counts
	for i, p := range places {
		options.Settings = append(options.Settings, fmt.Sprintf("server.%d=%s:%d:%d", i+1, p.host, p.quorum, p.election))
	}
	e := &Ensemble{}
	for i, p := range places {
		s := &Server{dir: t.TempDir(), address: net.JoinHostPort(p.host, strconv.Itoa(p.client)), options: options, command: p.command}
		if err := s.configure(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.data(), "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
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

// place is where a member listens: for clients, for the others, and for elections.
type place struct {
	host                     string
	client, quorum, election int
	command                  []string
}

func places(members int, hosts []Host) ([]place, error) {
	if len(hosts) > 0 && len(hosts) != members {
		return nil, fmt.Errorf("%d hosts: must be %d", len(hosts), members)
	}
	ports, err := freePorts(3 * members)
	if err != nil {
		return nil, err
	}
	all := make([]place, members)
	for i := range all {
		all[i] = place{"127.0.0.1", ports[i], ports[members+i], ports[2*members+i], nil}
		if len(hosts) > 0 {
			all[i] = place{hosts[i].Address, 2181, 2888, 3888, hosts[i].Command}
		}
	}
	return all, nil
}

// Addresses returns the addresses of all members.
func (e *Ensemble) Addresses() []string {
	var all []string
	for _, s := range e.Members {
		all = append(all, s.Address())
	}
	return all
}

// Leader returns the leader, nil if there is none.
func (e *Ensemble) Leader(ctx context.Context) *Server {
	for _, s := range e.Members {
		if s.Mode(ctx) == "leader" {
			return s
		}
	}
	return nil
}
