package tidy_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logKey is a row of the table of keys in docs/operate/operations.md.
var logKey = regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\| ")

// logKeys are the keys that the table has.
func logKeys(t *testing.T) map[string]bool {
	t.Helper()
	text, err := fs.ReadFile(project, "docs/operate/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return keysIn(string(text))
}

// keysIn are the keys of the table below "## Log keys" in a document.
func keysIn(document string) map[string]bool {
	_, section, _ := strings.Cut(document, "\n## Log keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	keys := map[string]bool{}
	for _, m := range logKey.FindAllStringSubmatch(section, -1) {
		for _, key := range strings.Split(m[1], ", ") {
			keys[strings.Trim(key, "`")] = true
		}
	}
	return keys
}

// Which calls take keys: those of a logger after their message, With at once, and
// the attributes of package slog.
var (
	logCalls  = []string{"Debug", "Info", "Warn", "Error"}
	attrCalls = []string{"String", "Int", "Int64", "Bool", "Duration", "Any", "Time"}
)

// keysUsed are the keys of the log calls of a file, and where; an empty one is no
// text that is written there.
func keysUsed(s source) map[string]token.Position {
	used := map[string]token.Position{}
	add := func(e ast.Expr) {
		key, _ := text(e)
		used[key] = s.fset.Position(e.Pos())
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := f.X.(*ast.Ident)
		isPackage := x != nil && x.Name == "slog"
		_, message := text(call.Args[0])
		switch {
		case isPackage && slices.Contains(attrCalls, f.Sel.Name):
			add(call.Args[0])
		case slices.Contains(logCalls, f.Sel.Name) && message:
			for i := 1; i < len(call.Args); i += 2 {
				add(call.Args[i])
			}
		case f.Sel.Name == "With" && message && len(call.Args)%2 == 0:
			for i := 0; i < len(call.Args); i += 2 {
				add(call.Args[i])
			}
		}
		return true
	})
	return used
}

// text is what a literal says.
func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// logKeyCheck wants every key of a log call to be in the table. What etcd logs, with
// its own keys, passes through zaplog.
func logKeyCheck(known map[string]bool) func(source) []string {
	return func(s source) (problems []string) {
		if s.test || s.pkg == "broker/etcd/internal/zaplog" || strings.HasPrefix(s.pkg, "examples/") {
			return nil
		}
		for key, at := range keysUsed(s) {
			if !known[key] {
				problems = append(problems, fmt.Sprintf("%s: the log key %q is not in docs/operate/operations.md", at, key))
			}
		}
		return problems
	}
}

func TestTidy_LogKeysAreThoseOfTheTable(t *testing.T) {
	known := logKeys(t)
	check(t, logKeyCheck(known))
	used := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			for key := range keysUsed(s) {
				used[key] = true
			}
		}
	}
	for _, key := range sorted(known) {
		if !used[key] {
			t.Errorf("docs/operate/operations.md has the log key %q, and nothing logs it", key)
		}
	}
}

func TestTidy_LogKeyCheckFails(t *testing.T) {
	known := keysIn("# x\n## Log keys\n| `task`, `token` | a task |\n## Next\n| `other` | no |\n")
	for _, bad := range []string{
		`log.Info("m", "id", 1)`, `log.Warn("m", "task", 1, "id", 2)`, `log.With("id", 1)`, `slog.Int("id", 1)`, `log.Error("m", key, 1)`, `log.Info("m", "other", 1)`,
	} {
		good := strings.NewReplacer(`"id"`, `"token"`, "key", `"task"`, `"other"`, `"task"`).Replace(bad)
		failsOn(t, logKeyCheck(known), "x/x.go", "package x\nfunc f() { "+bad+" }\n", "package x\nfunc f() { "+good+" }\n")
	}
}
