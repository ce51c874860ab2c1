//go:build e2e

package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSources_TheReportIsWhatOneFunctionSays(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--root", write(t, small()), "--nodes", "2"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if want := fmt.Sprintf("%d packages, %d files, ", 3+2*needsMost+1, 4+2*needsMost+1); !strings.Contains(out.String(), want) {
		t.Errorf("it says %s, want %s", &out, want)
	}
}

func TestSources_WhatCannotBeDoneIsRefused(t *testing.T) {
	long := fstest.MapFS{strings.Repeat("|", 200) + "/a.go": {}}
	for want, root := range map[string]string{"there are no Go files": t.TempDir(), "the limit is 512": write(t, long)} {
		var out strings.Builder
		err := run(t.Context(), []string{"--root", root, "--nodes", "1"}, &out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q\n%s", err, want, &out)
		}
	}
	var out strings.Builder
	for _, args := range [][]string{{"nodes"}, {"--root", "nowhere"}, {"--root", "main.go"}} {
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
