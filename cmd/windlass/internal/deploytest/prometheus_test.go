package deploytest

import (
	"strings"
	"testing"
)

func TestAlerts_AreEachSeenToFire(t *testing.T) {
	tested := read(t, "prometheus/windlass.rules.test.yml")
	for line := range strings.Lines(read(t, "prometheus/windlass.rules.yml")) {
		if _, name, ok := strings.Cut(line, "- alert: "); ok && !strings.Contains(tested, `"`+strings.TrimSpace(name)+`"`) {
			t.Errorf("no test has %s fire", strings.TrimSpace(name))
		}
	}
}
