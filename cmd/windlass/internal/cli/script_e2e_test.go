//go:build e2e

package cli

import "testing"

func TestScript_WithABroker(t *testing.T) { runScripts(t, "e2e") }
