package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"testing"
)

// roles are what this test's binary does in processes of its own, by the first argument.
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

// percentile is the least value that at least p percent of a sample do not exceed, zero
// for an empty sample.
func percentile(sample []float64, p float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(sample))
	return s[max(int(math.Ceil(p/100*float64(len(s)))), 1)-1]
}
