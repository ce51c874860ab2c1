package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/windlass-go/windlass/bench/internal/servers"
)

// This test's binary is also the etcd of BenchmarkNodes, in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == servers.EtcdRole {
		if err := servers.RunEtcdMember(os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
