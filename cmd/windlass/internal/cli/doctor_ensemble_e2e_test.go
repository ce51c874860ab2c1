//go:build e2e

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// Servers that die one after the other, as the doctor sees them.
func TestDoctor_ChecksAnEnsembleWithoutAQuorum(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: time.Second})
	run := func() (code int, out string) {
		code, out = runMain("doctor", "--broker", zookeeper.Scheme+strings.Join(e.Addresses(), ",")+"?tick_time=1s")
		return code, strings.Join(strings.Fields(out), " ") // the widths of columns differ
	}
	for dead, want := range []struct {
		code  int
		words []string
	}{
		{exitDone, []string{"ok quorum 3 of 3 server(s) serve, ", "ok version ZooKeeper 3."}},
		{exitDone, []string{"warning quorum 2 of 3 server(s) serve, ", "connection refused"}},
		{exitUnavailable, []string{"problem quorum 0 of 3 server(s) serve", "quorum is lost", "has no quorum"}},
		{exitUnavailable, []string{"problem quorum none of 3 server(s) answers"}},
	} {
		if dead > 0 {
			e.Members[dead-1].Kill()
		}
		code, out := run()
		// What is left finds a leader, or that it is alone, within some time.
		for began := time.Now(); (code != want.code || !containsAll(out, want.words)) && time.Since(began) < time.Minute; {
			code, out = run()
		}
		if code != want.code || !containsAll(out, want.words) {
			t.Errorf("%d dead: exit code %d, want %d and %q\n%s", dead, code, want.code, want.words, out)
		}
	}
}
