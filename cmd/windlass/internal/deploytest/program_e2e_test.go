//go:build e2e

package deploytest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/testprogram"
)

// program is windlass, built static as in the container file, whose other flags make
// no difference here.
var program string

func TestProgram_IsStaticAndRunsWithNothingElse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("an image has a program for Linux")
	}
	binary, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs other files: it has %v", p.Type)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run it in an empty root folder")
	}
	root := t.TempDir()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "windlass"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := inRoot(root, "/windlass", "version", "-o", "json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"platform": "linux/`) {
		t.Errorf("in an empty root folder it says %v: %s", err, out)
	}
	out, err = inRoot(root, "/windlass", "node", "list", "--broker", "etcd://127.0.0.1:1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "127.0.0.1:1") {
		t.Errorf("without a broker it says %v: %s", err, out)
	}
}

func TestUnits_ArePleasingToSystemd(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	for _, command := range []string{"node", "serve"} {
		name := "windlass-" + command + ".service"
		text := strings.ReplaceAll(read(t, "systemd/"+name), "/usr/local/bin/windlass", program) // it must exist
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// The parser has read the expressions in tools; this is whether they are true when they
// should be.
func TestAlerts_FireWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool here")
	}
	if out, err := exec.Command(promtool, "test", "rules", filepath.Join(deploy, "prometheus/windlass.rules.test.yml")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMain(m *testing.M) { testprogram.Main(m, &program, "CGO_ENABLED=0") }
