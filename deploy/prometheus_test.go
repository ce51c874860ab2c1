package deploy

import (
	"os/exec"
	"strings"
	"testing"
)

// The parser has read the expressions in tools; this is whether they are true when they
// should be.
func TestAlerts_FireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool here")
	}
	if out, err := exec.Command(promtool, "test", "rules", "prometheus/windlass.rules.test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAlerts_AreEachSeenToFire(t *testing.T) {
	tested := read(t, "prometheus/windlass.rules.test.yml")
	for line := range strings.Lines(read(t, "prometheus/windlass.rules.yml")) {
		if _, name, ok := strings.Cut(line, "- alert: "); ok && !strings.Contains(tested, `"`+strings.TrimSpace(name)+`"`) {
			t.Errorf("no test has %s fire", strings.TrimSpace(name))
		}
	}
}
