package profile

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// topLines is how many functions are shown of each.
const topLines = 15

// lists are what is shown of each role: the functions in which its processes were
// themselves, those below which they were, those that allocated, and those that held
// locks for which others waited.
var lists = []struct {
	ending, sample, title string
	flags                 []string
}{
	{cpuEnding, "cpu", "processor time", nil},
	{cpuEnding, "cpu", "processor time, what is called included", []string{"-cum"}},
	{allocsEnding, "alloc_space", "bytes allocated", nil},
	{mutexEnding, "delay", "waiting for locks", nil},
}

// Top prints the functions that count most in the processes of each role, all of a
// role together.
func Top(ctx context.Context, out io.Writer, dir string) error {
	roles, err := byRole(dir, cpuEnding)
	if err != nil {
		return err
	}
	if len(roles) == 0 {
		return fmt.Errorf("%s: there are no profiles", dir)
	}
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		for _, list := range lists {
			files, err := byRole(dir, list.ending)
			if err != nil {
				return err
			}
			if len(files[role]) == 0 { // all of its processes were killed early
				continue
			}
			args := append([]string{"tool", "pprof", "-top", fmt.Sprint("-nodecount=", topLines), "-sample_index=" + list.sample}, list.flags...)
			text, err := exec.CommandContext(ctx, "go", append(args, files[role]...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("go tool pprof: %w: %s", err, text)
			}
			if _, err := fmt.Fprintf(out, "\n== %s: %s, of %d file(s)\n%s", role, list.title, len(files[role]), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// byRole are the files of a folder with an ending, by the role of their process.
func byRole(dir, ending string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil {
		return nil, err
	}
	roles := map[string][]string{}
	for _, file := range files {
		role := filepath.Base(file)
		if end := strings.LastIndexByte(role, '-'); end > 0 { // the process's number follows
			role = role[:end]
		}
		roles[role] = append(roles[role], file)
	}
	return roles, nil
}
