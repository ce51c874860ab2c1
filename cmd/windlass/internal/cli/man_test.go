package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestMan_EveryCommandHasAPageWithItsFlags(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "man1")
	if code := Main(t.Context(), []string{"man", folder}, strings.NewReader(""), io.Discard, t.Output()); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	pages := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		pages++
		page, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(page), `\fB--`+f.Name+`\fP`) {
				t.Errorf("the page of %s lacks --%s", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk((&app{}).rootCommand())
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != pages || pages < 40 {
		t.Errorf("%d files for %d commands, %v", len(files), pages, err)
	}
}
