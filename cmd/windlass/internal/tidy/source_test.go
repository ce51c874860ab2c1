package tidy_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house checks itself: these tests read the source in their own process, so
// that the test cache notices every change.

// top is the project's folder, and project what is in it. The way there is a link within this
// module, because the test cache does not notice what changes outside of it.
const top = "../../testdata/root"

var project = os.DirFS(top)

var update = flag.Bool("update", false, "rewrite the files in docs/ that are generated from the code")

const module = "github.com/windlass-go/windlass"

// source is one parsed Go file of the module.
type source struct {
	path  string // slashes, from the root
	pkg   string // folder from the root, "." for the root
	test  bool
	text  string
	file  *ast.File
	fset  *token.FileSet
	lines int
}

// endToEnd reports whether only the build tag e2e compiles the file.
func (s source) endToEnd() bool { return strings.HasPrefix(s.text, "//go:build e2e") }

// parse reads one Go file from its text.
func parse(path, text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	return source{
		path: path, pkg: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
		text: text, file: file, fset: fset, lines: strings.Count(text, "\n"),
	}, err
}

// sources are all Go files of the modules, but those of tools, which have no code of ours.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(project, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if path != "." && (path == "tools" || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := fs.ReadFile(project, path)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(path), string(text))
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// check runs a check on every source.
func check(t *testing.T, of func(source) []string) {
	t.Helper()
	for _, s := range sources(t) {
		report(t, of(s))
	}
}

// failsOn proves that a check can fail: it must find something in a bad example
// and nothing in a good one.
func failsOn(t *testing.T, of func(source) []string, path, bad, good string) {
	t.Helper()
	for text, want := range map[string]bool{bad: true, good: false} {
		s, err := parse(path, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(s); (len(got) > 0) != want {
			t.Errorf("on %q it says %q", text, got)
		}
	}
}

// goStatements are the files that may start goroutines with a go statement, and
// why; elsewhere a sync.WaitGroup is both start and end.
var goStatements = map[string]string{
	"broker/etcd/embedded/server.go":              "waits for the server to stop by itself",
	"cmd/windlass/internal/cli/survived.go":       "a write to a disk that may hang, for which neither a node nor the end of its process waits",
	"cmd/windlass/internal/cli/streams.go":        "a write to standard output that nobody reads, which nothing can interrupt",
	"cmd/windlass/internal/exectask/supervise.go": "the supervisor's own loops, which end with its process",
	"cmd/windlass/internal/exectask/guard.go":     "reads the pipe of a guard, which ends with its process",
	"cmd/windlass/internal/exectask/loop.go":      "as above",
	"cmd/windlass/internal/exectask/walk.go":      "as above",
	"cmd/windlass/internal/exectask/link.go":      "the two ends of the socket to a supervisor, and its process",
}

func goStatementCheck(s source) (problems []string) {
	if s.test || goStatements[s.path] != "" {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			problems = append(problems, fmt.Sprintf("%s: a go statement; list the file with its reason, or use a sync.WaitGroup", s.fset.Position(g.Pos())))
		}
		return true
	})
	return problems
}

func TestTidy_GoStatementsStandOnlyInListedFiles(t *testing.T) { check(t, goStatementCheck) }

func TestTidy_GoStatementCheckFails(t *testing.T) {
	failsOn(t, goStatementCheck, "x/x.go", "package x\nfunc f() { go f() }\n", "package x\nfunc f() { f() }\n")
}

// Bounds of functions and files, in lines.
const (
	functionLinesMax = 70
	fileLinesMax     = 600
)

func sizeCheck(s source) (problems []string) {
	if s.lines > fileLinesMax {
		problems = append(problems, fmt.Sprintf("%s: %d lines; the limit is %d", s.path, s.lines, fileLinesMax))
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || s.test {
			continue
		}
		if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > functionLinesMax {
			problems = append(problems, fmt.Sprintf("%s: %s has %d lines; the limit is %d", s.fset.Position(f.Pos()), f.Name.Name, n, functionLinesMax))
		}
	}
	return problems
}

func TestTidy_FunctionsAndFilesAreShort(t *testing.T) { check(t, sizeCheck) }

func TestTidy_SizeCheckFails(t *testing.T) {
	long := "package x\nfunc f() {\n" + strings.Repeat("\n", functionLinesMax) + "}\n"
	failsOn(t, sizeCheck, "x/x.go", long, "package x\nfunc f() {}\n")
	failsOn(t, sizeCheck, "x/x_test.go", "package x\n"+strings.Repeat("\n", fileLinesMax), long)
}

// unfinished are the words that say that something was left for later. They
// are put together here so that this file does not contain them.
var unfinished = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}

func unfinishedCheck(s source) (problems []string) {
	for i, line := range strings.Split(s.text, "\n") {
		for _, word := range unfinished {
			if strings.Contains(line, word) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", s.path, i+1, word))
			}
		}
	}
	return problems
}

func TestTidy_NothingIsLeftForLater(t *testing.T) { check(t, unfinishedCheck) }

func TestTidy_UnfinishedCheckFails(t *testing.T) {
	failsOn(t, unfinishedCheck, "x/x.go", "package x // "+unfinished[0]+"\n", "package x\n")
}

// documentedCheck wants a comment on every exported symbol outside of tests.
func documentedCheck(s source) (problems []string) {
	if s.test || s.file.Name.Name == "main" {
		return nil
	}
	want := func(doc *ast.CommentGroup, name *ast.Ident) {
		if name.IsExported() && doc == nil {
			problems = append(problems, fmt.Sprintf("%s: %s is exported and has no comment", s.fset.Position(name.Pos()), name.Name))
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				want(d.Doc, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					want(first(spec.Doc, d.Doc), spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						want(first(spec.Doc, spec.Comment, d.Doc), name)
					}
				}
			}
		}
	}
	return problems
}

func first(docs ...*ast.CommentGroup) *ast.CommentGroup {
	for _, d := range docs {
		if d != nil {
			return d
		}
	}
	return nil
}

func receiver(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func TestTidy_EveryExportedSymbolIsDocumented(t *testing.T) { check(t, documentedCheck) }

func TestTidy_DocumentedCheckFails(t *testing.T) {
	failsOn(t, documentedCheck, "x/x.go", "package x\nfunc F() {}\n", "package x\n\n// F is.\nfunc F() {}\n")
	failsOn(t, documentedCheck, "x/x.go", "package x\ntype T struct{}\n", "package x\ntype t struct{}\n")
}

func TestTidy_EveryPackageIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

// virtualTime are what a file has whose tests run in virtual time; inEach, inCluster and inWorlds
// make the bubbles of a suite.
var virtualTime = []string{`"testing/synctest"`, `/windlasstest"`, "\tinEach(t, ", "\tinCluster(t, ", "\tinWorlds(t, "}

// sleepCheck refuses sleeping in tests that do not run in virtual time: those
// wait on a channel, or poll with a ticker.
func sleepCheck(s source) (problems []string) {
	if !s.test || slices.ContainsFunc(virtualTime, func(has string) bool { return strings.Contains(s.text, has) }) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sleep" {
			if x, ok := f.X.(*ast.Ident); ok && x.Name == "time" {
				problems = append(problems, fmt.Sprintf("%s: sleeping in real time", s.fset.Position(call.Pos())))
			}
		}
		return true
	})
	return problems
}

func TestTidy_TestsDoNotSleepInRealTime(t *testing.T) { check(t, sleepCheck) }

func TestTidy_SleepCheckFails(t *testing.T) {
	failsOn(t, sleepCheck, "x/x_test.go", "package x\nfunc f() { time.Sleep(1) }\n", "package x\nfunc f() { sleep(1) }\n")
}

func sorted[K ~string, V any](m map[K]V) []K {
	var ks []K
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
