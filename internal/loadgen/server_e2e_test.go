//go:build e2e

package loadgen

import (
	"os/exec"
	"strings"
	"testing"
)

func TestStartServer_ABrokerThatCannotStartSaysWhy(t *testing.T) {
	_, err := StartServer(t.Context(), exec.Command("sh", "-c", "echo the disk is full >&2; exit 1"))
	if err == nil || !strings.Contains(err.Error(), "the broker's process has ended\nexit status 1: the disk is full") {
		t.Errorf("the error is %v", err)
	}
}

func TestServer_TellsItsUsageAndEndsInOrder(t *testing.T) {
	s, err := StartServer(t.Context(), exec.Command("sh", "-c", `echo '{"ready":"/data"}'; read line; echo '{"answer":{"cpu_ns":7}}'; cat; echo warning >&2`))
	must(t, err)
	if s.Dir != "/data" {
		t.Errorf("the folder is %q", s.Dir)
	}
	if u, err := s.Usage(t.Context()); err != nil || u.CPU != 7 {
		t.Errorf("the usage is %+v, %v", u, err)
	}
	must(t, s.Close())
}
