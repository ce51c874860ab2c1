//go:build !e2e

package integration_test

import "testing"

func TestEndToEnd(t *testing.T) {
	t.Skip("what starts real processes, servers, networks and browsers is not compiled here: make e2e runs it")
}
