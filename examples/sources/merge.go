package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// summary says what a folder is, with all below it or without.
type summary struct {
	Dir      string `json:"dir"`
	Packages int    `json:"packages"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Digest   string `json:"digest"`
}

// merged is the result of a merge job: a folder with all below it, or a part of
// that, and what it was made of. The folder's own files are the entry of the same
// name.
type merged struct {
	summary
	Entries []summary `json:"entries"`
}

// summarize sums up the files of a folder.
func summarize(c contents) summary {
	s := summary{Dir: c.Dir, Packages: 1, Files: len(c.Files)}
	h := sha256.New()
	for _, file := range c.Files {
		s.Bytes += file.Size
		fmt.Fprintf(h, "%s %d %q\n", file.SHA256, file.Size, file.Name)
	}
	s.Digest = hex.EncodeToString(h.Sum(nil))
	return s
}

// merge sums up a folder, by what it consists of in any order.
func merge(dir string, entries []summary) merged {
	slices.SortFunc(entries, func(a, b summary) int { return strings.Compare(a.Dir, b.Dir) })
	m := merged{summary: summary{Dir: dir}, Entries: entries}
	h := sha256.New()
	for _, e := range entries {
		m.Packages += e.Packages
		m.Files += e.Files
		m.Bytes += e.Bytes
		fmt.Fprintf(h, "%s %d %d %q\n", e.Digest, e.Files, e.Bytes, e.Dir)
	}
	m.Digest = hex.EncodeToString(h.Sum(nil))
	return m
}
