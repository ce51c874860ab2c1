//go:build e2e

package exectask

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

func TestStdioIsTheCommandsOwn(t *testing.T) {
	var files [3]*os.File
	data, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	files[0] = data
	read := make([]*os.File, 2)
	for i := range read {
		if read[i], files[1+i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := feed.WriteString("in"); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	s := start(t, func(c *Config) { c.Stdio = &files })
	res := runOK(t, s, script("t", "cat; echo err >&2; ls /proc/self/fd | wc -l"))
	if len(res.Output) != 0 || res.OutputBytes != 0 {
		t.Errorf("the result has %q", res.Output)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for i, f := range read {
		files[1+i].Close()
		content, err := io.ReadAll(f)
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(bytes.TrimSpace(content)))
		f.Close()
	}
	data.Close()
	// The fourth descriptor is that of the folder which ls reads.
	if got[0] != "in4" || got[1] != "err" {
		t.Errorf("it wrote %q", got)
	}
}

func TestEnvironTakesThePlaceOfWhatIsInherited(t *testing.T) {
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
