//go:build !e2e

package windlass_test

import "testing"

func TestEndToEnd(t *testing.T) {
	t.Skip("what starts real processes, servers, networks and browsers is not compiled here: make e2e runs it")
}
