//go:build e2e && linux

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// nightPage is what is rehearsed here.
const nightPage = "../../../../docs/operate/night.md"

// situation is a section of the page with commands.
type situation struct {
	heading string
	steps   []step
}

// step is a command of the page, and the lines that the page has below it.
type step struct {
	command string
	shows   []string
}

var (
	remark = regexp.MustCompile(` +# .*$`)
	// placeholder is what the reader of the page fills in.
	placeholder = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	// varies is what differs from one time to the next in what a command shows: the blanks of a
	// table, and what the page leaves out.
	varies = regexp.MustCompile(`\s+|…`)
)

// situations reads the commands of a page, which are those of its console blocks.
func situations(text string) (found []situation) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch last := len(found) - 1; {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside && strings.HasPrefix(line, "## "):
			found = append(found, situation{heading: line[len("## "):]})
		case !inside || last < 0:
		case strings.HasPrefix(line, "$ "):
			found[last].steps = append(found[last].steps, step{command: remark.ReplaceAllString(line[len("$ "):], "")})
		default:
			s := &found[last].steps[len(found[last].steps)-1]
			s.shows = append(s.shows, line)
		}
	}
	return found
}

// notShown returns the first line of the page that an output does not have, in the order of the
// page; empty if it has all.
func notShown(output string, shows []string) string {
	lines := strings.Split(output, "\n")
	for _, want := range shows {
		pattern := varies.ReplaceAllStringFunc(regexp.QuoteMeta(strings.TrimSpace(want)), func(s string) string {
			if s == "…" {
				return ".*"
			}
			return `\s+`
		})
		line := regexp.MustCompile(`^\s*` + pattern + `\s*$`)
		at := slices.IndexFunc(lines, line.MatchString)
		if at < 0 {
			return want
		}
		lines = lines[at+1:]
	}
	return ""
}

// night is a situation that is rehearsed.
type night struct {
	*testing.T
	steps []step // that were not typed yet
}

// types types the next command of the page, again and again until it shows what the page says.
// One of which the page shows nothing has to succeed. fill has the placeholders and what is
// typed in their stead.
func (n *night) types(w *world, fill ...string) string {
	n.Helper()
	if len(n.steps) == 0 {
		n.Fatal("the page has no more commands in this section")
	}
	s := n.steps[0]
	n.steps = n.steps[1:]
	command := placeholder.ReplaceAllStringFunc(s.command, func(name string) string {
		at := slices.Index(fill, name)
		if at < 0 {
			n.Fatalf("nobody fills %s in: %s", name, s.command)
		}
		return fill[at+1]
	})
	output := ""
	w.eventually(patience, func() string {
		code := 0
		output, code = w.shell(command)
		if line := notShown(output, s.shows); line != "" || len(s.shows) == 0 && code != 0 {
			return fmt.Sprintf("%s shows %q; exit code %d:\n%s", command, line, code, output)
		}
		return ""
	})
	n.Logf("$ %s\n%s", command, output)
	return output
}

// shell runs a line as someone at a terminal would, and returns all that it printed.
func (w *world) shell(line string) (output string, code int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `PATH="$0:$PATH"; `+line, filepath.Dir(program))
	cmd.Env, cmd.Dir = w.env, w.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s: %v", line, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// supervised starts a node in a loop, as a supervisor does, and returns the file that has its
// process ID.
func (f *fleet) supervised(name string) (pid string) {
	f.t.Helper()
	const loop = `trap 'kill $child; wait $child; exit' TERM; while :; do "$@" & child=$!; echo $child >"$0"; wait $child; done`
	pid = f.path(name + ".pid")
	f.nodes[name] = f.launch(launch{name: name, argv: append([]string{"sh", "-c", loop, pid}, f.nodeCommand(name)...)})
	return pid
}

// logs waits until a process has said something.
func (f *fleet) logs(p *process, want string) {
	f.t.Helper()
	f.until(patience, p.name+" says "+want, func() bool {
		text, err := os.ReadFile(p.output)
		must(f.t, err)
		return strings.Contains(string(text), want)
	})
}

func TestNight_EverySectionIsRehearsedAsThePageHasIt(t *testing.T) {
	page, err := os.ReadFile(nightPage)
	must(t, err)
	var headings []string
	for _, s := range situations(string(page)) {
		headings = append(headings, s.heading)
		rehearse := rehearsals[s.heading]
		if rehearse == nil || len(s.steps) == 0 {
			t.Errorf("the section %q has %d commands, and a rehearsal: %t", s.heading, len(s.steps), rehearse != nil)
			continue
		}
		t.Run(s.heading, func(t *testing.T) {
			n, began := &night{T: t, steps: s.steps}, time.Now()
			rehearse(n)
			if len(n.steps) > 0 {
				t.Errorf("not rehearsed: %+v", n.steps)
			}
			t.Logf("measured: %v", time.Since(began).Round(time.Millisecond))
		})
	}
	for heading := range rehearsals {
		if !slices.Contains(headings, heading) {
			t.Errorf("the page has no section %q", heading)
		}
	}
}

func TestNightPage_CommandsAndWhatTheyShow(t *testing.T) {
	got := situations("# x\n\n## A b\n\n```console\n$ do ID   # that\nok  12 …\n$ and\n```\n\n## C\n\n```\n$ no\n```\n")
	if want := `[{A b [{do ID [ok  12 …]} {and []}]} {C []}]`; fmt.Sprint(got) != want {
		t.Errorf("it reads %v, want %s", got, want)
	}
	for output, missing := range map[string]string{
		"x\n ok 12 and so on\n": "", "ok 13 y": "ok  12 …", "not ok 12 y": "ok  12 …", "": "ok  12 …",
	} {
		if got := notShown(output, []string{"ok  12 …"}); got != missing {
			t.Errorf("of %q it misses %q, want %q", output, got, missing)
		}
	}
	if notShown("b\na\n", []string{"a", "b"}) != "b" {
		t.Error("the order does not count")
	}
}
