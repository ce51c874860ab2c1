package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// changeFlags say what is to change about a task, live or ended.
type changeFlags struct {
	own             *pflag.FlagSet
	taskType, props string
	spec            specFlags
	removed         []string
}

// register adds the flags to a command. A flag that the command has already stays what it is.
func (f *changeFlags) register(cmd *cobra.Command) {
	var alone cobra.Command
	f.own = alone.Flags()
	f.own.StringVar(&f.taskType, "type", "", "type of the task, which names its handler")
	f.own.StringVar(&f.props, "props", "", "properties of the task, as JSON; null for none")
	f.own.StringSliceVar(&f.removed, "remove", nil, "what the task is to have no more of: one of "+names(view.Settings(), ", "))
	f.spec.register(&alone)
	completeFlag(&alone, "remove", view.Settings())
	cmd.Flags().AddFlagSet(f.own)
}

// given reports whether one of the flags that register has added was given.
func (f *changeFlags) given(flags *pflag.FlagSet) bool {
	given := false
	f.own.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed && flags.Lookup(flag.Name) == flag })
	return given
}

// read returns the change that was asked for. command is what was given after --.
func (f *changeFlags) read(changed func(flag string) bool, command []string) (func(*windlass.Submission) error, error) {
	if len(command) > 0 && changed("props") {
		return nil, usagef("a command after -- excludes --props")
	}
	given, err := f.spec.line(changed)
	if err != nil {
		return nil, err
	}
	nothing, err := nulls(f.removed)
	if err != nil {
		return nil, err
	}
	return func(s *windlass.Submission) error {
		if err := view.Patch(s, nothing); err != nil {
			return err
		}
		if changed("type") {
			s.Spec.Type = f.taskType
		}
		if changed("props") {
			s.Props = view.Submission{Props: json.RawMessage(f.props)}.Task().Props
		}
		f.spec.change(given, &s.Spec, changed)
		if err := setCommand(s, command); err != nil {
			return err
		}
		return checkExec(*s)
	}, nil
}

// retryFlags are those of commands that run again what has ended. Three names are flags of the
// selection as well: with IDs they say what is to change.
type retryFlags struct {
	changeFlags
	selection *selection
}

var sharedFlags = []string{"type", "node", "tag"}

func (f *retryFlags) register(cmd *cobra.Command, s *selection) {
	f.selection = s
	f.changeFlags.register(cmd)
	for _, name := range sharedFlags {
		flag := cmd.Flags().Lookup(name)
		flag.Usage = "without IDs: " + flag.Usage + "; with IDs: " + f.own.Lookup(name).Usage
	}
}

// read returns the change that was asked for, nil for none.
func (f *retryFlags) read(cmd *cobra.Command, withIDs bool, command []string) (func(*windlass.Submission) error, error) {
	changed := func(name string) bool {
		return cmd.Flags().Changed(name) && (withIDs || cmd.Flags().Lookup(name) == f.own.Lookup(name))
	}
	shared := false
	for _, name := range sharedFlags {
		shared = shared || changed(name)
	}
	if !shared && !f.given(cmd.Flags()) && len(command) == 0 {
		return nil, nil
	}
	if withIDs {
		var err error
		if f.taskType, err = only("--type", f.selection.filter.Types); err != nil {
			return nil, err
		}
		if f.spec.given.Node, err = only("--node", f.selection.filter.Nodes); err != nil {
			return nil, err
		}
		f.spec.tags = f.selection.search.tags
	}
	return f.changeFlags.read(changed, command)
}

// only returns the one value of a flag, empty for none.
func only(flag string, values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", usagef("%s %q: must be one value, with IDs", flag, values)
}
