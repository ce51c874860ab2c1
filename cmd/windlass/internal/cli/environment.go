package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fromEnvironment sets the global flags that were not given from variables:
// --broker-user from WINDLASS_BROKER_USER, and so on.
func fromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		name := "WINDLASS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if f.Changed || !ok || failed != nil {
			return
		}
		if err := f.Value.Set(value); err != nil {
			failed = usagef("%s: %w", name, err)
		}
	})
	return failed
}
