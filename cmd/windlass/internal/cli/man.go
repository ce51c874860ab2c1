package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/windlass-go/windlass/internal/view"
)

// manCommand is hidden: it is for those who package the program, and the archives of a
// release have the pages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write a manual page for each command into a folder",
		Hidden: true,
		Args:   exactArgs("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.InitDefaultVersionFlag()
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writePages(root, args[0])
		},
	}
}

// writeAnew writes a file in the place of whatever is there: a link is replaced, not followed.
func writeAnew(path string, content []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// writePages writes the page of a command and of all below it. A page names the version
// of the program instead of a day: the same program writes the same pages.
func writePages(cmd *cobra.Command, folder string) error {
	var page bytes.Buffer
	header := doc.GenManHeader{Section: "1", Source: "windlass " + view.BuildVersion().Version, Manual: "Windlass", Date: &time.Time{}}
	if err := doc.GenMan(cmd, &header, &page); err != nil {
		return err
	}
	undated := strings.Replace(page.String(), time.Time{}.Format(`"Jan 2006"`), `""`, 1)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + header.Section
	if err := writeAnew(filepath.Join(folder, name), []byte(undated)); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(sub, folder); err != nil {
				return err
			}
		}
	}
	return nil
}
