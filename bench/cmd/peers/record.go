package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/growth"
	"github.com/windlass-go/windlass/bench/internal/jobs"
	"github.com/windlass-go/windlass/bench/internal/report"
)

// The files of a run, and the places in the documents.
const (
	jsonName     = "report.json"
	markdownName = "report.md"
	// recordedFolder and document are below the folder of the documents.
	recordedFolder = "peers"
	document       = "benchmarks.md"
	// headingLevel is that of the headings within the document's section.
	headingLevel = 3
)

// write writes a report and its plots into a folder.
func write(r *report.Report, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		create(filepath.Join(dir, jsonName), r.Write),
		create(filepath.Join(dir, markdownName), func(out io.Writer) error { return r.Markdown(out, headingLevel) }),
		writePlots(r, dir),
	)
}

func writePlots(r *report.Report, dir string) error {
	var errs []error
	for name, plot := range plots(r) {
		errs = append(errs, create(filepath.Join(dir, name), plot.WriteSVG))
	}
	return errors.Join(errs...)
}

// drawing is a plot of any kind.
type drawing interface{ WriteSVG(io.Writer) error }

// plots are those of a report, by the names of their files.
func plots(r *report.Report) map[string]drawing {
	all := map[string]drawing{}
	if w := r.Workload(growth.Workload); w != nil && len(w.Measures) > 0 {
		for name, plot := range growth.Plots(w) {
			all[name] = plot
		}
	}
	for name, rows := range map[string]func(row string) bool{
		jobs.Workload:      func(row string) bool { return strings.HasSuffix(row, jobs.RateRowEnd) },
		elections.Workload: func(row string) bool { return strings.HasSuffix(row, "median") },
	} {
		w := r.Workload(name)
		if w == nil {
			continue
		}
		bars := w.Bars(w.Title, slices.DeleteFunc(rowsOf(w), func(row string) bool { return !rows(row) })...)
		if len(bars.Groups) > 0 {
			all[name+".svg"] = bars
		}
	}
	return all
}

// create makes a file anew.
func create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// readReport reads the report in a folder.
func readReport(dir string) (*report.Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, jsonName))
	if err != nil {
		return nil, err
	}
	return report.Read(bytes.NewReader(text))
}

// recordCommand puts the report of a run into the documents.
func recordCommand(args []string, out, errs io.Writer) error {
	var from, docs string
	rest, err := parse("peers record", args, errs, func(f *flag.FlagSet) {
		f.StringVar(&from, "from", "out", "folder with the report of a run")
		f.StringVar(&docs, "docs", filepath.Join("..", "docs"), "folder of the documents")
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: record takes no arguments, and was given %q", errUsage, rest)
	}
	r, err := readReport(from)
	if err != nil {
		return err
	}
	path := filepath.Join(docs, document)
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := r.Insert(string(before), headingLevel)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	to := filepath.Join(docs, recordedFolder)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := errors.Join(create(filepath.Join(to, jsonName), r.Write), writePlots(r, to), os.WriteFile(path, []byte(after), 0o644)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(plots(r))) {
		fmt.Fprintln(out, filepath.Join(to, name))
	}
	_, err = fmt.Fprintln(out, path)
	return err
}
