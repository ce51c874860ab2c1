package tidy_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Up to these a type may have as many fields and methods as it needs. What is larger is in the ratchet.
const (
	fieldsMax  = 25
	methodsMax = 40
)

// ratchetFile has what is larger than it should be. Its numbers only fall: -update writes those that have
// fallen, and none that has risen.
const ratchetFile = "testdata/ratchet.txt"

// whereElse is what to do about a number that has risen.
const whereElse = "new code goes into the part that it belongs to, below the root if it can (docs/internals/architecture.md has them), and into a type of its own"

// sizes counts the root package, and the types that are larger than they should be, in a line each such
// as "windlass.Client methods".
func sizes(all []source) map[string]int {
	counts := map[string]int{}
	for _, s := range all {
		if s.test {
			continue
		}
		name := typesOf(s)
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					counts[name(receiver(d))+" methods"]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						counts[name(t.Name.Name)+" fields"] += fieldsOf(t)
					}
				}
			}
		}
	}
	maps.DeleteFunc(counts, func(what string, n int) bool {
		return n <= map[string]int{"fields": fieldsMax, "methods": methodsMax}[what[strings.LastIndex(what, " ")+1:]]
	})
	for _, s := range all {
		if s.pkg == "." && !s.test {
			counts["root files"]++
			counts["root lines"] += s.lines
			counts["root exported names"] += namesOf(s)
		}
	}
	return counts
}

// typesOf names the types of a source by its folder and package.
func typesOf(s source) func(string) string {
	return func(name string) string { return path.Join(path.Dir(s.pkg), s.file.Name.Name) + "." + name }
}

func fieldsOf(t *ast.TypeSpec) (n int) {
	if s, ok := t.Type.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// namesOf counts the exported types, functions, constants and variables.
func namesOf(s source) (n int) {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						n++
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if name.IsExported() {
							n++
						}
					}
				}
			}
		}
	}
	return n
}

// turned compares the sizes with what is recorded. It returns what to record, and what has risen.
func turned(recorded, now map[string]int) (record map[string]int, problems []string) {
	record = map[string]int{}
	for what, n := range now {
		was, known := recorded[what]
		switch {
		case !known && len(recorded) > 0:
			problems = append(problems, fmt.Sprintf("%s: %d, and may be %d fields and %d methods; %s", what, n, fieldsMax, methodsMax, whereElse))
		case known && n > was:
			problems = append(problems, fmt.Sprintf("%s: %d, and were %d; %s", what, n, was, whereElse))
			n = was
		}
		record[what] = n
	}
	return record, problems
}

func readRatchet(t *testing.T) map[string]int {
	t.Helper()
	recorded := map[string]int{}
	text, err := os.ReadFile(ratchetFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		at := strings.LastIndex(strings.TrimSpace(line), " ")
		if _, err := fmt.Sscan(line[at+1:], &n); err != nil {
			t.Fatalf("%s: %q: %v", ratchetFile, line, err)
		}
		recorded[line[:at]] = n
	}
	return recorded
}

func TestTidy_WhatIsTooLargeOnlyShrinks(t *testing.T) {
	recorded := readRatchet(t)
	record, problems := turned(recorded, sizes(sources(t)))
	report(t, problems)
	if maps.Equal(recorded, record) {
		return
	}
	if !*update {
		t.Errorf("%s has larger numbers than there are; go test ./cmd/windlass/internal/tidy -update writes them down", ratchetFile)
		return
	}
	var lines []string
	for what, n := range record {
		lines = append(lines, fmt.Sprintf("%s %d\n", what, n))
	}
	slices.SortFunc(lines, cmp.Compare)
	if err := os.WriteFile(ratchetFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTidy_RatchetCheckFails(t *testing.T) {
	large := "package windlass\ntype T struct {" + strings.Repeat("a int;", fieldsMax+1) + "}\nfunc F() {}\n" + strings.Repeat("func (t *T) m() {}\n", methodsMax+1)
	s, err := parse("x.go", large)
	if err != nil {
		t.Fatal(err)
	}
	now := sizes([]source{s})
	if want := map[string]int{"windlass.T fields": 26, "windlass.T methods": 41, "root files": 1, "root lines": 44, "root exported names": 2}; !maps.Equal(now, want) {
		t.Errorf("%v, want %v", now, want)
	}
	was := maps.Clone(now)
	was["root lines"], was["windlass.T fields"], was["windlass.U fields"] = 43, 30, 26
	delete(was, "windlass.T methods")
	record, problems := turned(was, now)
	if record["root lines"] != 43 || record["windlass.T fields"] != 26 || record["windlass.U fields"] != 0 || len(problems) != 2 {
		t.Errorf("%v of %v: %q", record, was, problems)
	}
}
