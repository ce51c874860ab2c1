package loadgen

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// nodeRole is the first argument that makes the test binary a node process; a data
// folder, a namespace and a name follow.
const nodeRole = "node-of-a-test"

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == nodeRole {
		if err := nodeMain(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
