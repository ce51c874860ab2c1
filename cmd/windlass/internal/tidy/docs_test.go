package tidy_test

import (
	"fmt"
	"go/ast"
	"go/printer"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// markdown are all documents of the project.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		paths, err := fs.Glob(project, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := fs.ReadFile(project, path)
			if err != nil {
				t.Fatal(err)
			}
			docs[path] = string(text)
		}
	}
	return docs
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?[^)]*\)`)
	heading = regexp.MustCompile("(?m)^#+ (.*)$")
	// noAnchor is what the name of a heading does not keep in links to it.
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names by which links find the headings of a document, as GitHub makes
// them.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := link.ReplaceAllString(m[1], "]")
		names = append(names, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(plain), ""), " ", "-"))
	}
	return names
}

// deadLinks finds links in a document to files, and to headings of documents, that do
// not exist.
func deadLinks(path, text string) (problems []string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[0], "://") {
			continue
		}
		to, target := path, text
		if m[1] != "" {
			to = filepath.Join(filepath.Dir(path), m[1])
			if _, err := fs.Stat(project, to); err != nil {
				problems = append(problems, fmt.Sprintf("%s: the link to %s leads nowhere", path, m[1]))
				continue
			}
			if strings.HasSuffix(to, ".md") {
				content, err := fs.ReadFile(project, to)
				if err != nil {
					problems = append(problems, err.Error())
				}
				target = string(content)
			}
		}
		if m[2] != "" && !slices.Contains(anchors(target), m[2]) {
			problems = append(problems, fmt.Sprintf("%s: %s has no heading %s", path, to, m[2]))
		}
	}
	return problems
}

func TestTidy_LinksInDocumentsLeadSomewhere(t *testing.T) {
	docs := markdown(t)
	for _, needed := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/internals/architecture.md", "docs/internals/contract.md"} {
		if docs[needed] == "" {
			t.Errorf("%s is missing", needed)
		}
	}
	for path, text := range docs {
		report(t, deadLinks(path, text))
	}
}

func TestTidy_LinkCheckFails(t *testing.T) {
	dead := "[x](nowhere.md) [y](docs/internals/safety.md#nothing) [z](#none)"
	live := "# A `b` c\n[x](go.mod) [y](https://a/b#c) [z](#a-b-c) [s](docs/internals/safety.md#what-happens-when)"
	if len(deadLinks("README.md", dead)) != 3 || len(deadLinks("README.md", live)) != 0 {
		t.Error("it does not tell a dead link from a live one")
	}
}

// spelledPath is a path with a slash in a code span. abbreviated are the folders that CONTRIBUTING.md
// has short names for, and foreign the documents that name files of other projects.
var (
	spelledPath = regexp.MustCompile("`([A-Za-z][A-Za-z0-9_.-]*/[A-Za-z0-9_./-]+)`")
	abbreviated = map[string]string{"cli/": "cmd/windlass/internal/cli/", "web/": "api/dashboard/web/src/"}
	foreign     = []string{"docs/internals/operators.md", "docs/internals/sources.md"}
)

// absentPaths finds the paths in code spans that lead nowhere: those of Go files, and those that
// begin with a folder of the project. A name behind the last folder may follow a dot.
func absentPaths(path, text string) (problems []string) {
	if slices.Contains(foreign, path) {
		return nil
	}
	there := func(name string) bool {
		_, err := fs.Stat(project, strings.TrimSuffix(name, "/"))
		return err == nil
	}
	for _, m := range spelledPath.FindAllStringSubmatch(text, -1) {
		name := m[1]
		for short, long := range abbreviated {
			if strings.HasPrefix(name, short) {
				name = long + strings.TrimPrefix(name, short)
			}
		}
		first, _, _ := strings.Cut(name, "/")
		symbol, _, _ := strings.Cut(name, ".")
		if (strings.HasSuffix(name, ".go") || there(first)) && !there(name) && !(there(symbol) && !strings.HasSuffix(name, ".go")) {
			problems = append(problems, fmt.Sprintf("%s: %s is not there", path, m[1]))
		}
	}
	return problems
}

// spelledFile is the name of a Go file in a code span, without its folder.
var spelledFile = regexp.MustCompile("`([a-z_]+\\.go)`")

// absentFiles finds the Go files that a document names and that no folder has.
func absentFiles(path, text string, all []source) (problems []string) {
	if slices.Contains(foreign, path) {
		return nil
	}
	for _, m := range spelledFile.FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(all, func(s source) bool { return filepath.Base(s.path) == m[1] }) {
			problems = append(problems, fmt.Sprintf("%s: there is no %s", path, m[1]))
		}
	}
	return problems
}

func TestTidy_PathsInDocumentsAreThere(t *testing.T) {
	all := sources(t)
	for path, text := range markdown(t) {
		report(t, absentPaths(path, text))
		report(t, absentFiles(path, text, all))
	}
}

func TestTidy_PathCheckFails(t *testing.T) {
	absent := "`internal/orders`, `api/orders.go`, `cli/orders.go`, `elsewhere/x.go`"
	there := "`internal/keys`, `cli/main.go`, `broker/etcd/`, `internal/keys.TestX`, `text/plain`, `application/json`"
	if len(absentPaths("README.md", absent)) != 4 || len(absentPaths("README.md", there)) != 0 {
		t.Errorf("it finds %q and %q", absentPaths("README.md", absent), absentPaths("README.md", there))
	}
	files := "`keys.go`, `keys.go` in `internal`, `gone.go`"
	if got := absentFiles("README.md", files, []source{{path: "internal/keys/keys.go"}}); len(got) != 1 {
		t.Errorf("it finds %q", got)
	}
}

// figure is a measured one: a number with a unit of time, of size or of a rate.
var figure = regexp.MustCompile(`[0-9][0-9.,]*\s?(?:ms|µs|ns|%|×|kB|KiB|MiB|/s|times|(?:[a-z]+ )?(?:a|per) (?:second|minute))`)

// unfounded finds figures that a document names and the benchmarks do not.
func unfounded(path, text, benchmarks string) (problems []string) {
	for _, f := range figure.FindAllString(text, -1) {
		if !strings.Contains(benchmarks, f) {
			problems = append(problems, fmt.Sprintf("%s: %q is not in docs/internals/benchmarks.md, which says how it was measured", path, f))
		}
	}
	return problems
}

func TestTidy_FiguresInTheReadmeAreAmongTheBenchmarks(t *testing.T) {
	docs := markdown(t)
	report(t, unfounded("README.md", docs["README.md"], docs["docs/internals/benchmarks.md"]))
}

func TestTidy_FigureCheckFails(t *testing.T) {
	if n := len(unfounded("README.md", "places 9,000 tasks a second, 5 ms, in Go 1.26 on port 2379", "5 ms")); n != 1 {
		t.Errorf("it finds %d figures without a measurement, want 1", n)
	}
}

// number is a statement of the contract, in the name of the test that proves it.
var (
	number    = regexp.MustCompile(`_([MZLOX]\d\d)`)
	statement = regexp.MustCompile(`^\| ([MZLOX]\d\d) \| (.*?) \| (.*) \|$`)
)

// coverage maps the numbers to the tests that carry them.
func coverage(all []source) map[string][]string {
	tests := map[string][]string{}
	for _, s := range all {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, m := range number.FindAllStringSubmatch(f.Name.Name, -1) {
				name := strings.TrimPrefix(s.pkg+".", "..") + f.Name.Name
				entry := "`" + strings.TrimPrefix(name, ".") + "`"
				if s.endToEnd() {
					entry += " (e2e)"
				}
				tests[m[1]] = append(tests[m[1]], entry)
			}
		}
	}
	return tests
}

// withCoverage fills the last column of the contract's table in.
func withCoverage(document string, tests map[string][]string) (text string, unknown []string) {
	lines := strings.Split(document, "\n")
	seen := map[string]bool{}
	for i, line := range lines {
		m := statement.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen[m[1]] = true
		proof := "–"
		if names := tests[m[1]]; len(names) > 0 {
			slices.Sort(names)
			proof = strings.Join(names, "<br>")
		}
		lines[i] = fmt.Sprintf("| %s | %s | %s |", m[1], m[2], proof)
	}
	for _, n := range sorted(tests) {
		if !seen[n] {
			unknown = append(unknown, n)
		}
	}
	return strings.Join(lines, "\n"), unknown
}

func TestTidy_TheContractNamesTheTestsThatProveIt(t *testing.T) {
	const path = "docs/internals/contract.md"
	before, err := fs.ReadFile(project, path)
	if err != nil {
		t.Fatal(err)
	}
	after, unknown := withCoverage(string(before), coverage(sources(t)))
	if len(unknown) > 0 {
		t.Errorf("tests carry numbers that %s does not have: %q", path, unknown)
	}
	generated(t, path, after)
}

// generated compares a file with what it should be, or rewrites it.
func generated(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(top, path), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := fs.ReadFile(project, path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date; run: go test ./cmd/windlass/internal/tidy -update, and read the difference", path)
	}
}

func TestTidy_CoverageCheckFails(t *testing.T) {
	s, err := parse("x/x_test.go", "package x\nfunc TestY_M01_Z(t *testing.T) {}\nfunc TestY_M77_Z(t *testing.T) {}\n")
	if err != nil {
		t.Fatal(err)
	}
	text, unknown := withCoverage("| M01 | words | – |", coverage([]source{s}))
	if text != "| M01 | words | `x.TestY_M01_Z` |" || !slices.Equal(unknown, []string{"M77"}) {
		t.Errorf("it says %q and %q", text, unknown)
	}
}

// exported prints the exported API of the public packages, a line or block for
// each symbol.
func exported(all []source) string {
	symbols := map[string][]string{}
	for _, s := range all {
		if s.test || strings.Contains(s.pkg+"/", "internal/") || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			symbols[s.pkg] = append(symbols[s.pkg], exportedOf(s, d)...)
		}
	}
	var out strings.Builder
	out.WriteString("# The exported API. Generated: go test ./cmd/windlass/internal/tidy -update\n")
	for _, pkg := range sorted(symbols) {
		fmt.Fprintf(&out, "\npackage %s\n", pkg)
		slices.Sort(symbols[pkg])
		for _, line := range symbols[pkg] {
			fmt.Fprintln(&out, "  "+line)
		}
	}
	return out.String()
}

func exportedOf(s source, d ast.Decl) (lines []string) {
	show := func(node any) string {
		var b strings.Builder
		if err := printer.Fprint(&b, s.fset, node); err != nil {
			return err.Error()
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			lines = append(lines, show(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					lines = append(lines, exportedType(spec, show)...)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						lines = append(lines, d.Tok.String()+" "+name.Name)
					}
				}
			}
		}
	}
	return lines
}

func exportedType(spec *ast.TypeSpec, show func(any) string) (lines []string) {
	name := "type " + spec.Name.Name
	switch x := spec.Type.(type) {
	case *ast.StructType:
		lines = append(lines, name+" struct")
		for _, f := range x.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					lines = append(lines, fmt.Sprintf("%s.%s %s", name, n.Name, show(f.Type)))
				}
			}
			if len(f.Names) == 0 {
				lines = append(lines, fmt.Sprintf("%s embeds %s", name, show(f.Type)))
			}
		}
	case *ast.InterfaceType:
		lines = append(lines, name+" interface")
		for _, f := range x.Methods.List {
			for _, n := range f.Names {
				lines = append(lines, fmt.Sprintf("%s.%s%s", name, n.Name, strings.TrimPrefix(show(f.Type), "func")))
			}
		}
	default:
		lines = append(lines, name+" "+show(spec.Type))
	}
	return lines
}

func TestTidy_TheExportedAPIIsWrittenDown(t *testing.T) {
	generated(t, "docs/reference/api.txt", exported(sources(t)))
}

func TestTidy_APICheckFails(t *testing.T) {
	s, err := parse("x/x.go", "package x\nfunc F(a int) error { return nil }\nfunc g() {}\ntype T struct{ A, b int }\n")
	if err != nil {
		t.Fatal(err)
	}
	text := exported([]source{s})
	for _, want := range []string{"func F(a int) error", "type T struct", "type T.A int"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if strings.Contains(text, "g()") || strings.Contains(text, "T.b") {
		t.Errorf("it shows what is not exported: %q", text)
	}
}
