//go:build e2e

package exectask

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestStdioIsTheCommandsOwn(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "0"), []byte("in"), 0o600))
	var files [3]*os.File
	for i := range files {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i)), os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		defer f.Close()
		files[i] = f
	}
	s := start(t, func(c *Config) { c.Stdio = &files })
	res := runOK(t, s, script("t", "cat; echo err >&2; ls /proc/self/fd | wc -l"))
	if len(res.Output) != 0 || res.OutputBytes != 0 {
		t.Errorf("the result has %q", res.Output)
	}
	// The fourth descriptor is that of the folder which ls reads.
	for i, want := range []string{"in", "in4\n", "err\n"} {
		got, err := os.ReadFile(files[i].Name())
		must(t, err)
		if string(got) != want {
			t.Errorf("file %d has %q, want %q", i, got, want)
		}
	}
}

func TestEnvironReplacesInheritedVariables(t *testing.T) {
	c := script("a", "env")
	c.Token, c.Env = "7", map[string]string{"B": "env"}
	c.Environ = []string{"A=1", "B=2", "WINDLASS_JOB_ID=a", "WINDLASS_RUN=forged", "WINDLASS_TASK=forged", "PATH=/bin:/usr/bin"}
	out := string(runOK(t, start(t), c).Output)
	for _, want := range []string{"A=1\n", "B=env\n", "WINDLASS_JOB_ID=a\n", "WINDLASS_TASK=a\n", "WINDLASS_TOKEN=7\n"} {
		if !strings.Contains("\n"+out, "\n"+want) {
			t.Errorf("there is no %q in %s", want, out)
		}
	}
	if strings.Contains(out, "forged") || strings.Contains(out, "B=2") || strings.Contains(out, "HOME=") {
		t.Errorf("it sees %s", out)
	}
	for _, environ := range [][]string{{"A=\x00"}, {"A=" + strings.Repeat("x", EnvironBytesMax)}} {
		c.Environ = environ
		if err := c.validate(); err == nil {
			t.Errorf("an environment of %d bytes was accepted", len(environ[0]))
		}
	}
}
