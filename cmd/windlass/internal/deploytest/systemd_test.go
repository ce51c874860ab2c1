package deploytest

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/session"
)

// unit are the settings of a unit of systemd, by section and name.
func unit(t *testing.T, text string) map[string]map[string][]string {
	t.Helper()
	settings, section := map[string]map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			settings[section] = map[string][]string{}
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok || settings[section] == nil {
				t.Fatalf("%q is no setting", line)
			}
			settings[section][name] = append(settings[section][name], value)
		}
	}
	return settings
}

func TestUnits_UseWhatTheProgramHasAndLetItLeaveInGoodOrder(t *testing.T) {
	for _, command := range []string{"node", "serve"} {
		path := "systemd/windlass-" + command + ".service"
		text := read(t, path)
		service := unit(t, text)["Service"]
		start := strings.Join(service["ExecStart"], "\n")
		if !strings.HasPrefix(start, "/usr/local/bin/windlass "+command+" ") {
			t.Errorf("%s starts %q", path, start)
		}
		checkFlags(t, path, command, start)
		checkVariables(t, path, text)
		for line := range strings.Lines(text) {
			if _, flags, ok := strings.Cut(line, "_FLAGS="); ok {
				checkFlags(t, path, command, " "+flags)
			}
		}
		stop, err := time.ParseDuration(strings.Join(service["TimeoutStopSec"], ""))
		if least := session.Derive(session.TTLMax).Grace + 5*time.Second; command == "node" && (err != nil || stop < least) {
			t.Errorf("%s: TimeoutStopSec is %v, %v, want at least %v", path, stop, err, least)
		}
		for name, want := range map[string]string{
			"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "KillMode": "mixed", "Restart": "on-failure",
			"CapabilityBoundingSet": "", "EnvironmentFile": "/etc/windlass/" + command + ".env",
		} {
			if got := service[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		// It was 2, the code of a wrong command line, and of a Go program that panics.
		if got := service["RestartPreventExitStatus"]; len(got) > 0 {
			t.Errorf("%s: what ends with %q is not started again", path, got)
		}
		if got := service["RestartForceExitStatus"]; command == "node" && (len(got) != 1 || got[0] != "70") {
			t.Errorf("%s: RestartForceExitStatus is %q, want 70", path, got)
		}
	}
}
