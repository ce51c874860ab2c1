package windlass_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"os"
	"strings"
	"testing"
)

// mayStartProcesses are the deterministic tests that start a process, and why.
var mayStartProcesses = map[string]string{
	"broker/brokertest/mutant_test.go":    "starts itself, once for each defect; virtual time inside",
	"deploy/container_test.go":            "go list",
	"internal/cli/script_test.go":         "commands that need no broker",
	"internal/simulation/mutants_test.go": "builds defects; by make mutants only",
	"tidy_layers_test.go":                 "go list",
}

// tierCheck finds deterministic tests that start processes.
func tierCheck(s source) (problems []string) {
	if !s.test || s.endToEnd() || mayStartProcesses[s.path] != "" || strings.HasPrefix(s.path, "bench/") {
		return nil
	}
	for _, i := range s.file.Imports {
		if path := strings.Trim(i.Path.Value, `"`); path == "os/exec" || strings.HasSuffix(path, "/testprogram") || strings.HasSuffix(path, "/zktest") {
			problems = append(problems, fmt.Sprintf("%s imports %s and has no build tag e2e: what starts processes is an end-to-end test", s.path, path))
		}
	}
	return problems
}

func TestTidy_WhatStartsProcessesIsAnEndToEndTest(t *testing.T) { check(t, tierCheck) }

func TestTidy_TierCheckFails(t *testing.T) {
	const start = "package x\nimport _ \"os/exec\"\n"
	failsOn(t, tierCheck, "x/x_test.go", start, "//go:build e2e\n\n"+start)
}

// quarantined are the tests of the quarantine list.
func quarantined(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.Open(".ci/quarantine")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names
}

// A name that no test has would look as if something waited to be mended.
func TestTidy_TheQuarantineNamesTestsThatThereAre(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && !s.endToEnd() {
				there[f.Name.Name] = true
			}
		}
	}
	for _, name := range quarantined(t) {
		if !there[name] {
			t.Errorf(".ci/quarantine names %s, which no deterministic test is called", name)
		}
	}
}
