package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/windlass-go/windlass/bench/internal/servers"
)

// This test's binary is also the etcd of these benchmarks, and "windlass serve", each in a
// process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveRole {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := runServe(ctx, os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == servers.EtcdRole {
		if err := servers.RunEtcdMember(os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
