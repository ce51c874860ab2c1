package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
)

// concurrency is how many tasks of a type a node runs at a time: the value of a
// flag that can be given several times.
type concurrency map[string]int

var _ pflag.Value = (*concurrency)(nil)

func (c *concurrency) register(flags *pflag.FlagSet) {
	flags.Var(c, "concurrency", "how many tasks of a type the node runs at a time, as TYPE=N, or N for each type; repeatable; default: no bound")
}

// String implements pflag.Value.
func (c *concurrency) String() string { return "" }

// Type implements pflag.Value.
func (c *concurrency) Type() string { return "[TYPE=]N" }

// Set implements pflag.Value.
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
