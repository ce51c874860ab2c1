package profile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBegin_WithoutAFolderDoesNothing(t *testing.T) {
	t.Setenv(Variable, "")
	stop, err := Begin("role")
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestBegin_WritesProfilesOfWhichTheTopCanBeShown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Variable, dir)
	stop, err := Begin("role")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "killed-1.0"+cpuEnding+partEnding), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kept := bytes.Repeat([]byte("x"), 8<<20)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{cpuEnding, allocsEnding, mutexEnding, traceEnding} {
		files, err := filepath.Glob(filepath.Join(dir, "role-*"+ending))
		if err != nil || len(files) != 1 {
			t.Errorf("of %s there are %q (%v)", ending, files, err)
			continue
		}
		if info, err := os.Stat(files[0]); err != nil || info.Size() == 0 {
			t.Errorf("%s is empty (%v)", files[0], err)
		}
	}
	var out bytes.Buffer
	if err := Top(t.Context(), &out, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"role: processor time, of 1 file(s)", "bytes allocated", "bytes.Repeat"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if len(kept) == 0 {
		t.Error("nothing was allocated")
	}
}

func TestTop_OfNothingIsAnError(t *testing.T) {
	if err := Top(t.Context(), &bytes.Buffer{}, t.TempDir()); err == nil {
		t.Error("it shows something")
	}
}

func TestByRole_GroupsTheFilesOfAllProcesses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd-member-7.0" + cpuEnding, "etcd-member-8.12" + cpuEnding, "driver-1.0" + cpuEnding, "driver-1" + traceEnding, "driver-1.1" + cpuEnding + partEnding} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roles, err := byRole(dir, cpuEnding)
	if err != nil || len(roles) != 2 || len(roles["etcd-member"]) != 2 || len(roles["driver"]) != 1 {
		t.Errorf("they are %v (%v)", roles, err)
	}
}
