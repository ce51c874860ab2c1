package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

type consent struct {
	yes    bool
	dryRun bool
}

func (c *consent) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only list the tasks that it would affect")
}

// check refuses a command for which nobody could be asked.
func (c *consent) check(a *app) error {
	if c.yes || c.dryRun || isTerminal(a.in) {
		return nil
	}
	return usagef("standard input is not a terminal, so nobody can be asked: --yes is needed; --dry-run shows which tasks it would be")
}

var errNoConsent = errors.New("nothing was done")

// ask returns nil for a yes. An interrupt ends the process at once: it cannot interrupt
// the read, and nothing is under way.
func (c *consent) ask(ctx context.Context, a *app, question string) error {
	if c.yes {
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(a.err)
		os.Exit(exitInterrupted)
	})()
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: there was no answer: %w", errNoConsent, err)
	}
	return errNoConsent
}
