//go:build e2e

package loadgen

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// nodeRole is the first argument that makes the test binary a node process; a data
// folder, a namespace and a name follow.
const nodeRole = "node-of-a-test"

// init makes this binary a node process when it is started as one.
func init() {
	if len(os.Args) != 5 || os.Args[1] != nodeRole {
		return
	}
	if err := nodeMain(os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func nodeMain(dir, namespace, name string) error {
	store, err := embedded.Dial(context.Background(), dir)
	if err != nil {
		return err
	}
	defer store.Close()
	return RunNode(context.Background(), os.Stdin, os.Stdout, NodeConfig{
		Broker: store, Namespace: namespace, Name: name, SessionTTL: 5 * time.Second,
	})
}

// world is a broker, with the configuration of a small run on it.
func world(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Socket: true})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	program, err := os.Executable()
	must(t, err)
	namespace := Namespace("/test")
	return Config{
		Phases: Phases, Tasks: 300, Nodes: 2, IdleFor: time.Second, Timeout: 5 * time.Minute,
		Broker: server.Broker(), Namespace: namespace,
		Node: func(name string) *exec.Cmd { return exec.Command(program, nodeRole, dir, namespace, name) },
	}
}
