package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
)

type allowFlags struct{ programs, env []string }

func (f *allowFlags) register(flags *pflag.FlagSet, programs []string) {
	flags.StringArrayVar(&f.programs, "exec-allow", programs, "command that tasks may run, by path or by name; * for every one; repeatable")
	flags.StringArrayVar(&f.env, "exec-env", nil, "variable that tasks may set for their command; repeatable. With --exec-allow '*' they may set all")
}

func (f allowFlags) allow() (exectask.Allow, error) {
	allow, err := exectask.NewAllow(f.programs)
	if err != nil {
		return allow, usagef("--exec-allow: %w", err)
	}
	if allow, err = allow.Setting(f.env); err != nil {
		return allow, usagef("--exec-env: %w", err)
	}
	return allow, nil
}

// concurrency is how many tasks of a type a node runs at a time: the value of a
// flag that can be given several times.
type concurrency map[string]int

var _ pflag.Value = (*concurrency)(nil)

func registerConcurrency(flags *pflag.FlagSet, c *map[string]int) {
	flags.Var((*concurrency)(c), "concurrency", "how many tasks of a type the node runs at a time, as TYPE=N, or N for each type; repeatable; default: no limit")
}

func (c *concurrency) String() string { return "" }

func (c *concurrency) Type() string { return "[TYPE=]N" }

func (c *concurrency) Set(text string) error {
	taskType, count := windlass.AnyType, text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		taskType, count = text[:i], text[i+1:]
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > windlass.ConcurrencyMax {
		return fmt.Errorf("must be TYPE=N or N, with N from 1 to %d", windlass.ConcurrencyMax)
	}
	if *c == nil {
		*c = concurrency{}
	}
	(*c)[taskType] = n
	return nil
}

// registerRetention adds the flags of a node that forgets tasks.
func registerRetention(flags *pflag.FlagSet, r *windlass.Retention) {
	flags.DurationVar(&r.Age, "retention-age", 0, "after what time tasks that have ended are forgotten; 0 for never")
	flags.IntVar(&r.Count, "retention-count", 0, "how many tasks that have ended are kept, the latest; 0 for all")
}

func checkRetention(r windlass.Retention) error {
	switch {
	case r.Age < 0:
		return usagef("--retention-age %v: must not be negative", r.Age)
	case r.Count < 0:
		return usagef("--retention-count %d: must not be negative", r.Count)
	}
	return nil
}
