package tidy_test

import (
	"fmt"
	"strings"
	"testing"
)

// mayStartProcesses are the deterministic tests that start a process, and why.
var mayStartProcesses = map[string]string{
	"broker/brokertest/mutant_test.go":                   "starts itself, once for each defect; virtual time inside",
	"cmd/windlass/internal/cli/script_test.go":           "commands that need no broker",
	"cmd/windlass/internal/deploytest/container_test.go": "go list",
	"cmd/windlass/internal/simulation/mutants_test.go":   "builds defects; by make mutants only",
	"cmd/windlass/internal/tidy/layers_test.go":          "go list",
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
