//go:build e2e

package main

import (
	"strings"
	"testing"
)

func TestSources_WhatCannotBeDoneIsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"there are no Go files": {"--root", t.TempDir(), "--nodes", "1"}, "no such file": {"--root", "nowhere", "--nodes", "1"}, "not defined": {"--node"},
	} {
		var out strings.Builder
		if err := run(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q\n%s", err, want, &out)
		}
	}
}
