package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// mutant reintroduces a known defect, to check that the simulation finds it. It is a
// file of testdata/mutants: a description of the defect and, for each changed file,
// edits in the form of conflicts,
//
//	-- session/run.go --
//	<<<<<<<
//	as it is
//	=======
//	with the defect
//	>>>>>>>
//
// A part "-- test --" names a test that finds the defect, such as
// internal/exectask.TestX, if many hundred seeds may miss it or do not run that code. It
// may be an end-to-end test.
type mutant struct {
	name, what, test string
	// files are the changed ones, by their path in the module.
	files map[string][]byte
}

// moduleRoot leads to the root by a link within this module, because the test cache does
// not notice changes outside of it.
const moduleRoot = "../../testdata/root"

func readMutants(t *testing.T) []mutant {
	t.Helper()
	paths, err := filepath.Glob("testdata/mutants/*.txt")
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d mutants are there (%v)", len(paths), err)
	}
	var mutants []mutant
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := mutant{
			name: strings.TrimSuffix(filepath.Base(path), ".txt"), what: strings.Join(strings.Fields(string(archive.Comment)), " "),
			files: map[string][]byte{},
		}
		for _, f := range archive.Files {
			if f.Name == "test" {
				m.test = strings.TrimSpace(string(f.Data))
				continue
			}
			if m.files[f.Name], err = edit(f.Name, string(f.Data)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		mutants = append(mutants, m)
	}
	return mutants
}

var editPattern = regexp.MustCompile(`(?s)<<<<<<<\n(.*?)\n=======\n(.*?)\n?>>>>>>>\n`)

// edit applies the edits to a file of the module. Each replaced text must occur once.
func edit(name, edits string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(moduleRoot, name))
	if err != nil {
		return nil, err
	}
	matches := editPattern.FindAllStringSubmatch(edits, -1)
	if len(matches) == 0 {
		return nil, fmt.Errorf("%s: no edit", name)
	}
	text := string(content)
	for _, m := range matches {
		if n := strings.Count(text, m[1]); n != 1 {
			return nil, fmt.Errorf("%s: what is to be replaced is there %d times:\n%s", name, n, m[1])
		}
		text = strings.Replace(text, m[1], m[2], 1)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// A mutant that no longer fits the code would never be run.
func TestMutants_Fit(t *testing.T) {
	for _, m := range readMutants(t) {
		if m.what == "" || len(m.files) == 0 {
			t.Errorf("%s does not say what it is", m.name)
		}
		if m.test != "" && !m.testExists(t) {
			t.Errorf("%s: there is no test %s", m.name, m.test)
		}
	}
}

func (m mutant) testExists(t *testing.T) bool {
	t.Helper()
	pkg, test, _ := strings.Cut(m.test, ".")
	paths, err := filepath.Glob(filepath.Join(moduleRoot, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}

var (
	mutantsFlag = flag.String("mutants", "", "a pattern of names of mutants to run the simulation against")
	hangMax     = 2 * time.Minute // a seed of the program itself takes up to three quarters of a minute on a slow machine
	// catchMax is how many seeds a mutant may survive.
	catchMax = uint64(120)
)

// The test builds the simulation with each mutant and runs it until a seed fails. It
// runs only on request: make mutants.
func TestMutants_AreCaught(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("runs for minutes; make mutants runs it")
	}
	pattern, err := regexp.Compile(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]uint64{}
	for _, r := range readRegressions(t) {
		known[r.mutant] = r.seed
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n| mutant | what it does | caught by | seed | after |\n|---|---|---|---|---|\n")
	for _, m := range readMutants(t) {
		if !pattern.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			caught := m.run(t, known[m.name])
			seed := fmt.Sprint(caught.seed)
			if m.test != "" {
				seed = "-"
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %v |\n", m.name, m.what, caught.by, seed, caught.took.Round(100*time.Millisecond))
		})
	}
	t.Log(table.String())
}

// caught is how a mutant was caught.
type caught struct {
	by   string
	seed uint64
	took time.Duration
}

// run runs one seed after the other until one fails, the known one first if there is
// one.
func (m mutant) run(t *testing.T, known uint64) caught {
	overlay := m.overlay(t)
	began := time.Now()
	if m.test != "" {
		pkg, test, _ := strings.Cut(m.test, ".")
		cmd := exec.Command("go", "test", "-tags", "e2e", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^"+test+"$", "./"+pkg)
		cmd.Dir = realRoot(t)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: "+test) {
			t.Errorf("survived %s: %s\n%.2000s", m.test, m.what, out)
		}
		return caught{by: "`" + m.test + "`", took: time.Since(began)}
	}
	program := build(t, overlay)
	for seed := range catchMax + 1 {
		if seed == 0 {
			if known == 0 {
				continue
			}
			seed = known
		}
		cmd := exec.Command(program, "-test.run=^TestSimulation", "-test.timeout="+hangMax.String(),
			"-seeds=1", "-even", fmt.Sprintf("-from=%d", seed), fmt.Sprintf("-length=%v", *lengthFlag))
		if out, err := cmd.CombinedOutput(); err != nil {
			c := caught{by: verdict(string(out)), seed: seed, took: time.Since(began)}
			t.Logf("seed %d after %v: %s\n%.2000s", c.seed, c.took.Round(100*time.Millisecond), c.by, out)
			return c
		}
	}
	t.Errorf("survived %d seeds: %s", catchMax, m.what)
	return caught{by: "**nothing**", seed: catchMax, took: time.Since(began)}
}

// realRoot returns the real path of the root. The compiler finds the changed files by
// that path only.
func realRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(moduleRoot)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// overlay writes the changed files, and returns the path of their list for the compiler.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := realRoot(t)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, content := range m.files {
		changed := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, name)] = changed
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "overlay.json")
}

// build compiles the simulation with the changed files.
func build(t *testing.T, overlay string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "simulation.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

var verdictPattern = regexp.MustCompile(`seed \d+ \([^)]*\): (?:revision \d+: )?(.*)`)

// verdict returns the invariant that was violated first.
func verdict(out string) string {
	text := "a failure of the run"
	switch found := verdictPattern.FindStringSubmatch(out); {
	case found != nil:
		text = found[1]
	case strings.Contains(out, "ended by itself"):
		return "M14"
	case strings.Contains(out, "test timed out"):
		return "a loop without a pause"
	case strings.Contains(out, "panic:"):
		return "a panic"
	}
	number, rest, ok := strings.Cut(text, ": ")
	switch {
	case ok && regexp.MustCompile(`^[ILMOVZ]\d+$`).MatchString(number):
		return number
	case strings.HasPrefix(text, "not settled"):
		if found := regexp.MustCompile(`[IMOVZ]\d+: `).FindString(rest); found != "" {
			return strings.TrimSuffix(found, ": ")
		}
		return "V1"
	case strings.HasPrefix(text, "the answers"):
		return "linearizability"
	}
	return text
}
