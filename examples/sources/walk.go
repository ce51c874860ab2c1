package main

import (
	"io/fs"
	"path"
	"strings"
)

// folders are those that hold Go files, and those above them up to ".".
type folders map[string]*folder

type folder struct {
	// isPackage: it has Go files of its own.
	isPackage bool
	// below are the paths of the folders right below it, in order.
	below []string
}

// walk finds the folders of a source tree. As the go command does it leaves out
// testdata and what begins with a dot or an underscore, but not vendor.
func walk(source fs.FS) (folders, error) {
	found := folders{}
	err := fs.WalkDir(source, ".", func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != "." && ignored(entry.Name()):
			return fs.SkipDir
		case isSource(entry):
			found.get(path.Dir(at)).isPackage = true
		}
		return nil
	})
	return found, err
}

func ignored(name string) bool {
	return name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func isSource(entry fs.DirEntry) bool {
	return entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), ".go")
}

// get returns a folder, new with those above it if need be.
func (all folders) get(dir string) *folder {
	f := all[dir]
	if f == nil {
		f = &folder{}
		all[dir] = f
		if dir != "." {
			up := all.get(path.Dir(dir))
			up.below = append(up.below, dir)
		}
	}
	return f
}

// sourceFile is a Go file of a folder.
type sourceFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 is empty until it was read.
	SHA256 string `json:"sha256,omitempty"`
}

// contents is the result of a package job, and with digests that of a hash job.
type contents struct {
	Dir   string       `json:"dir"`
	Files []sourceFile `json:"files"`
}

// list lists the Go files of a folder.
func list(source fs.FS, dir string) (contents, error) {
	found := contents{Dir: dir}
	entries, err := fs.ReadDir(source, dir)
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		if !isSource(entry) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return found, err
		}
		found.Files = append(found.Files, sourceFile{Name: entry.Name(), Size: info.Size()})
	}
	return found, nil
}
