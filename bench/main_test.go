package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/tree"
)

// roles are the functions of this test's binary in other processes, by first argument.
var roles = map[string]func(ctx context.Context, in io.Reader, out io.Writer, order string) error{
	etcdRole:   runEtcdMember,
	workerRole: runWorker,
}

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if role := roles[os.Args[1]]; role != nil {
			if err := role(context.Background(), os.Stdin, os.Stdout, os.Getenv(orderEnv)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// percentile returns the least value that at least p percent of a sample do not exceed,
// zero for an empty sample.
func percentile(sample []float64, p float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(sample))
	return s[max(int(math.Ceil(p/100*float64(len(s)))), 1)-1]
}

func newClient(tb testing.TB, store broker.Broker) *windlass.Client {
	tb.Helper()
	client, err := windlass.NewClient(store, "")
	must(tb, err)
	return client
}

func newTree(tb testing.TB, store broker.Broker) *tree.Tree {
	tb.Helper()
	t, err := tree.New(store, "")
	must(tb, err)
	return t
}

func openEtcd(tb testing.TB, config etcd.Config) *etcd.Broker {
	tb.Helper()
	store, err := etcd.Open(tb.Context(), config)
	must(tb, err)
	return store
}

// startNode runs a node in the background until ctx ends.
func startNode(ctx context.Context, b *testing.B, running *sync.WaitGroup, config windlass.Config) *windlass.Node {
	b.Helper()
	node, err := windlass.NewNode(config)
	must(b, err)
	running.Go(func() {
		if err := node.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	return node
}

// poll returns once done does, which it asks at intervals.
func poll(every time.Duration, done func() bool) {
	for !done() {
		<-time.After(every)
	}
}

func waitForNodes(b *testing.B, client *windlass.Client, n int) {
	b.Helper()
	poll(10*time.Millisecond, func() bool {
		nodes, err := client.Nodes(b.Context())
		must(b, err)
		return len(nodes) == n
	})
}

// must fails a test or a benchmark with an error, if there is one.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
