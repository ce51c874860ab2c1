package tidy_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// refusedName matches a name of a file that Go takes into no module, because it means something
// else on Windows: go install of the whole module would fail. See module.CheckFilePath.
var refusedName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$|["'*<>?` + "`" + `|/\\:]|\.$`)

func TestTidy_EveryFileCanBePartOfAModule(t *testing.T) {
	err := fs.WalkDir(project, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			if d.IsDir() {
				return fs.SkipDir
			}
		case path != "." && refusedName.MatchString(d.Name()):
			t.Errorf("%s: no module can have a file of that name", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTidy_NameCheckFails(t *testing.T) {
	for name, want := range map[string]bool{"nul": true, "NUL.txt": true, "com1": true, "a:b": true, "a.": true, "null": false, "a.go": false, "command.go": false} {
		if got := refusedName.MatchString(name); got != want {
			t.Errorf("%q is refused: %t, want %t", name, got, want)
		}
	}
}
