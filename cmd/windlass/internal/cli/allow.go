package cli

import (
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
)

// allowFlags say what tasks may run.
type allowFlags struct{ programs, env []string }

func (f *allowFlags) register(flags *pflag.FlagSet, programs []string) {
	flags.StringArrayVar(&f.programs, "exec-allow", programs, "command that tasks may run, by path or by name; * for every one; repeatable")
	flags.StringArrayVar(&f.env, "exec-env", nil, "variable that tasks may set for their command; repeatable. With --exec-allow '*' they may set all")
}

func (f allowFlags) allow() (exectask.Allow, error) {
	allow, err := exectask.NewAllow(f.programs)
	if err != nil {
		return exectask.Allow{}, usagef("--exec-allow: %w", err)
	}
	if allow, err = allow.Setting(f.env); err != nil {
		return exectask.Allow{}, usagef("--exec-env: %w", err)
	}
	return allow, nil
}
