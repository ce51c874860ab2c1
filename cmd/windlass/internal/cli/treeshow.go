package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

type showFlags struct {
	path     tree.Path
	watch    bool
	progress bool
	all      bool
	options  tree.DrawOptions
}

// redrawEvery bounds how often a tree is drawn.
const redrawEvery = 500 * time.Millisecond

func (a *app) treeShowCommand() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show [PATH]",
		Short: "Draw the tree, or what is below one job, and how far it has come",
		Long: `Draw the tree, or what is below one job, with a line below for how far it has come:
how many jobs there are of each status, how many end in a second, how long the rest
takes at that rate, and how many are blocked for good by one that failed.

With --watch it is drawn again on every change, in place on a terminal; with -o json
there is one line for each job that has changed, the first time for all of them.`,
		Example: `  windlass tree show
  windlass tree show requestFile_alpha --depth 2 --watch
  windlass tree show --progress -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s needs at most one PATH and got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		ValidArgsFunction: a.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkShow(cmd, args, &f); err != nil {
				return err
			}
			return a.withTree(cmd.Context(), func(t *tree.Tree, _ *windlass.Client) error {
				if f.watch {
					return a.watchTree(cmd.Context(), t, f)
				}
				forest, err := t.Load(cmd.Context())
				if err == nil {
					forest, err = part(forest, f.path)
				}
				if err != nil {
					return err
				}
				return a.show(forest, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "keep running and print every change")
	flags.BoolVar(&f.progress, "progress", false, "only how far it has come")
	flags.IntVar(&f.options.Depth, "depth", 0, "how many levels are drawn; 0 for all")
	flags.IntVar(&f.options.ChildrenMax, "children", tree.ChildrenShownMax, "how many jobs right below one are drawn")
	flags.BoolVar(&f.all, "all", false, "draw all of them")
	flags.BoolVar(&f.options.ASCII, "ascii", false, "draw with ASCII alone")
	return a.outputFlagOf(cmd, "tree")
}

func (a *app) checkShow(cmd *cobra.Command, args []string, f *showFlags) error {
	switch flags := cmd.Flags(); {
	case f.watch && a.output == "yaml":
		return usagef("--watch goes with -o tree or json")
	case f.options.Depth < 0:
		return usagef("--depth %d: must be at least 1, or 0 for all", f.options.Depth)
	case f.options.ChildrenMax < 1:
		return usagef("--children %d: must be at least 1", f.options.ChildrenMax)
	case f.all && flags.Changed("children"):
		return usagef("--all and --children exclude each other")
	}
	if len(args) == 0 {
		return nil
	}
	var err error
	f.path, err = tree.ParsePath(args[0])
	return err
}

func part(forest *tree.Forest, path tree.Path) (*tree.Forest, error) {
	below := forest.Subtree(path)
	if path != "" && below.Len() == 0 {
		return nil, fmt.Errorf("job %s: %w", path, windlass.ErrNotFound)
	}
	return below, nil
}

func (a *app) show(forest *tree.Forest, f showFlags) error {
	switch {
	case a.output == "tree":
		return a.draw(a.out, forest, f)
	case f.progress:
		return a.print(forest.Progress(time.Now()), nil)
	}
	return a.print(view.ForestOf(forest, time.Now()), nil)
}

func (a *app) draw(w io.Writer, forest *tree.Forest, f showFlags) error {
	if forest.Len() == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	now := time.Now()
	if !f.progress {
		o := f.options
		o.Now = now
		if f.all {
			o.ChildrenMax = -1
		}
		if width, _, ok := terminalSize(a.out); ok {
			o.Width, o.Color = width, os.Getenv("NO_COLOR") == ""
		}
		if err := forest.Draw(w, o); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, summary(forest.Progress(now)))
	return err
}

// countsText lists how many there are of each status.
func countsText(counts map[windlass.Status]int) string {
	var parts []string
	for _, status := range windlass.Statuses {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

func summary(p tree.Progress) string {
	text := fmt.Sprintf("%d job(s)", p.Total)
	if counts := countsText(p.Counts); counts != "" {
		text += ", " + counts
	}
	text += fmt.Sprintf("; %s done", view.Percent(p.Done, p.Total))
	if p.Rate > 0 {
		text += fmt.Sprintf(", %.3g/s", p.Rate)
	}
	if p.Left != nil && *p.Left > 0 {
		text += fmt.Sprintf(", about %v left", max(p.Left.Round(time.Second), time.Second))
	}
	if p.BlockedForGood > 0 {
		text += fmt.Sprintf("; %d blocked for good", p.BlockedForGood)
	}
	return text
}

// terminalSize is the size of a stream in cells; false if it is no terminal.
func terminalSize(stream any) (width, height int, ok bool) {
	if !isTerminal(stream) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(stream.(*os.File).Fd()))
	return width, height, err == nil && width > 0
}

// watchTree shows the tree, and again whenever it has changed, until ctx is done.
func (a *app) watchTree(ctx context.Context, t *tree.Tree, f showFlags) error {
	known := map[tree.Path]string{}
	first, last := true, ""
	for forest, err := range t.Watch(ctx, redrawEvery) {
		if err == nil {
			if forest, err = part(forest, f.path); err != nil && first {
				return err
			}
		}
		switch {
		case errors.Is(err, windlass.ErrNotFound):
			forest = tree.NewForest(nil) // it is gone, and may come back
		case err != nil:
			fmt.Fprintln(a.err, "windlass:", err)
			continue
		}
		if a.output == "json" {
			err = a.writeChanges(forest, known, f)
		} else {
			last, err = a.redraw(forest, f, first, last)
		}
		if err != nil {
			return err
		}
		first = false
	}
	return nil
}

// clearScreen moves the cursor to the upper left and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

// redraw draws in place on a terminal, as much as there is room for; elsewhere below the
// last drawing, if it differs from that.
func (a *app) redraw(forest *tree.Forest, f showFlags, first bool, last string) (drawn string, err error) {
	var b bytes.Buffer
	if err := a.draw(&b, forest, f); err != nil {
		return last, err
	}
	drawn = b.String()
	if _, height, ok := terminalSize(a.out); ok {
		_, err = io.WriteString(a.out, clearScreen+fit(drawn, height-1))
		return drawn, err
	}
	switch {
	case drawn == last:
		return drawn, nil
	case !first:
		drawn = "\n" + drawn
	}
	_, err = io.WriteString(a.out, drawn)
	return strings.TrimPrefix(drawn, "\n"), err
}

// fit keeps the head of a drawing and its last line, which sums it up.
func fit(drawn string, linesMax int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(drawn, "\n"), "\n")
	if n := len(lines); n > linesMax && linesMax > 2 {
		cut := fmt.Sprintf("(%d more lines)\n", n-linesMax+1)
		lines = append(append(lines[:linesMax-2:linesMax-2], cut), lines[n-1])
	}
	return strings.Join(lines, "") + "\n"
}

// writeChanges writes a line of JSON for each job that has changed, or for the progress
// with --progress.
func (a *app) writeChanges(forest *tree.Forest, known map[tree.Path]string, f showFlags) error {
	changed := func(path tree.Path, value any) error {
		content, err := json.Marshal(value)
		if err != nil || known[path] == string(content) {
			return err
		}
		known[path] = string(content)
		return a.written(view.EncodeJSON(value, ""))
	}
	if f.progress {
		return changed("", forest.Progress(time.Now()))
	}
	for _, job := range forest.Jobs() {
		if err := changed(job.Path, job); err != nil {
			return err
		}
	}
	for path := range known {
		if _, ok := forest.Get(path); ok {
			continue
		}
		delete(known, path)
		if err := a.written(view.EncodeJSON(map[string]any{"path": path, "gone": true}, "")); err != nil {
			return err
		}
	}
	return nil
}
