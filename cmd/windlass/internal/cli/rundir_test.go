package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Another user can make the folder in /tmp first, and must not keep this one's dev from
// starting, nor its commands from finding it.
func TestRunDir_OfAnotherUserIsNotUsed(t *testing.T) {
	shared, home := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", shared)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("XDG_RUNTIME_DIR", "")
	usual := filepath.Join(shared, "windlass-"+strconv.Itoa(os.Getuid()))
	if dir, err := runDir(); err != nil || dir != usual {
		t.Fatalf("%s, %v", dir, err)
	}
	if err := os.Chmod(usual, 0o777); err != nil { // as if it were another's
		t.Fatal(err)
	}
	if _, err := findDev(); !errors.Is(err, errNoDev) {
		t.Errorf("without one: %v", err)
	}
	if err := os.WriteFile(filepath.Join(usual, "dev-1.json"), []byte(`{"dir":"/forged"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	withdraw, err := announceDev("/mine")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	var announced []string
	see := func(_ string, f devFile, _ error) { announced = append(announced, f.Dir) }
	if eachDev(filepath.Join(cache, "windlass"), see); len(announced) != 1 || announced[0] != "/mine" {
		t.Errorf("%q", announced)
	}
	withdraw()
	if eachDev(filepath.Join(cache, "windlass"), see); len(announced) != 1 {
		t.Errorf("it is left: %q", announced)
	}
}
