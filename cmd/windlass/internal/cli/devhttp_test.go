package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDev_WritesTheTokenToPrivateFilesOnly(t *testing.T) {
	dir := t.TempDir()
	header := filepath.Join(dir, devHeaderFile)
	if err := os.WriteFile(header, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(header, 0o644); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	before, err := os.Open(header)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if _, _, err := (&devAPI{header: header}).token(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(header); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the header is %v, %v", info.Mode(), err)
	}
	if content, err := os.ReadFile(header); err != nil || !strings.HasPrefix(string(content), "Authorization: Bearer ") {
		t.Errorf("it has %q, %v", content, err)
	}
	if info, err := before.Stat(); err != nil || info.Size() != 0 {
		t.Error("who had it open can read the token")
	}
}
