package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// output is a folder with a file for each customer, a line of JSON for each item,
// to which all nodes append.
type output struct{ dir string }

// line is one line of an output file.
type line struct {
	item
	// Token is that of the claim that wrote it. Claims of one task are granted in
	// the order of their tokens, so a line with a lower token than one before it
	// was written by a node that was frozen or cut off and did not know yet that
	// another one has the task.
	Token int64 `json:"token"`
}

func (o output) path(customer string) string { return filepath.Join(o.dir, customer+".jsonl") }

// write appends items in one piece, and returns when they are on disk.
func (o output) write(customer string, token int64, items []item) (err error) {
	// A process that was killed, or a full disk, may have left half a line.
	lines := bytes.NewBufferString("\n")
	for _, it := range items {
		if err := json.NewEncoder(lines).Encode(line{item: it, Token: token}); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(o.path(customer), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(lines.Bytes()); err != nil {
		return fmt.Errorf("write %d items: %w", len(items), err)
	}
	return file.Sync()
}

// accepted reads an output file: every item once and in order. It refuses what an
// older claim wrote after a newer one, by the token, and what was written again
// because a node died before its checkpoint was stored, by the cursor. A file
// cannot compare and append in one step, so it refuses when it is read; a
// database would in the same statement: INSERT … WHERE token <= $1 AND cursor < $2.
func accepted(file io.Reader) (lines []line, err error) {
	var last line
	for reader := bufio.NewReader(file); ; {
		text, err := reader.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil && l.Token >= last.Token && l.Cursor > last.Cursor {
			lines, last = append(lines, l), l
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return lines, err
		}
	}
}
