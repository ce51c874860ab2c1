package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
)

// retryFlags say what becomes of a task that fails.
type retryFlags struct {
	errors           int
	window, min, max time.Duration
}

func (r *retryFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&r.errors, "retry-errors", 0, "how many errors within --retry-window fail it for good, 1 to 1000; -1 for no limit; default 25 for a job of the tree, no limit for other tasks")
	flags.DurationVar(&r.window, "retry-window", 0, "how far back errors count; default 4h")
	flags.DurationVar(&r.min, "retry-min", 0, "pause after the first error, half of that to all of it, which doubles with every one that counts; default 1s")
	flags.DurationVar(&r.max, "retry-max", 0, "bound on that pause; default 10m")
}

// retry is nil if none of the flags was given.
func (r *retryFlags) retry(flags *pflag.FlagSet) *windlass.Retry {
	for _, name := range []string{"retry-errors", "retry-window", "retry-min", "retry-max"} {
		if flags.Changed(name) {
			return &windlass.Retry{
				Errors: r.errors, Window: windlass.Duration(r.window), Min: windlass.Duration(r.min), Max: windlass.Duration(r.max),
			}
		}
	}
	return nil
}
