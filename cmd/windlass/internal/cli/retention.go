package cli

import (
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
)

// registerRetention adds the flags of a node that forgets tasks.
func registerRetention(flags *pflag.FlagSet, r *windlass.Retention) {
	flags.DurationVar(&r.Age, "retention-age", 0, "after what time tasks that have ended are forgotten; 0 for never")
	flags.IntVar(&r.Count, "retention-count", 0, "how many tasks that have ended are kept, the latest; 0 for all")
}

func checkRetention(r windlass.Retention) error {
	if r.Age < 0 {
		return usagef("--retention-age %v: must not be negative", r.Age)
	}
	if r.Count < 0 {
		return usagef("--retention-count %d: must not be negative", r.Count)
	}
	return nil
}
