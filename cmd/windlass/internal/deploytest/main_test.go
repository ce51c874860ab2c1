package deploytest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cli"
)

// deploy is the folder that paths in these tests are from. The way there is a link within this
// module, because the test cache does not notice what changes outside of it.
const deploy = "../../testdata/root/deploy"

// read reads a file of that folder.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(deploy, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var (
	helpFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z-]*)`)
	flagName = regexp.MustCompile(`(?:^|[\s"'=\[])--([a-z][a-z-]*)`)
	variable = regexp.MustCompile(`WINDLASS_[A-Z_]+`)
)

// windlass runs the program in this process, and returns all that it prints.
func windlass(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var printed bytes.Buffer
	if code := cli.Main(t.Context(), args, strings.NewReader(""), &printed, &printed); code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return printed.String(), err
}

// flagsOf are the flags of a command, those that all have included.
func flagsOf(t *testing.T, command string) map[string]bool {
	t.Helper()
	out, err := windlass(t, command, "--help")
	if err != nil {
		t.Fatalf("windlass %s --help: %v", command, err)
	}
	flags := map[string]bool{}
	for _, m := range helpFlag.FindAllStringSubmatch(out, -1) {
		flags[m[1]] = true
	}
	return flags
}

// checkFlags finds the flags of a command in a text that it does not have.
func checkFlags(t *testing.T, where, command, text string) {
	t.Helper()
	known := flagsOf(t, command)
	for _, m := range flagName.FindAllStringSubmatch(text, -1) {
		if !known[m[1]] {
			t.Errorf("%s: windlass %s has no flag --%s", where, command, m[1])
		}
	}
}

// checkVariables finds variables in a text that no flag of all commands has.
func checkVariables(t *testing.T, where, text string) {
	t.Helper()
	all := flagsOf(t, "version")
	for _, name := range variable.FindAllString(text, -1) {
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "WINDLASS_")), "_", "-")
		if !all[flag] {
			t.Errorf("%s: no flag is set by %s", where, name)
		}
	}
}

func TestFlags_OfTheProgramAreFound(t *testing.T) {
	if known := flagsOf(t, "node"); !known["session-ttl"] || !known["broker"] || !known["verbose"] || known["listen"] {
		t.Errorf("windlass node has the flags %v", known)
	}
	if got := flagName.FindAllString(`a --one "--two=x" --three-four`, -1); len(got) != 3 {
		t.Errorf("in a text there are %q", got)
	}
}
