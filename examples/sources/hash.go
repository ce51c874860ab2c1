package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
)

// hash reads the files of a folder. Their sizes become what was read, should a file
// have changed since it was listed.
func hash(ctx context.Context, source fs.FS, listed contents) (contents, error) {
	read := contents{Dir: listed.Dir}
	for _, file := range listed.Files {
		if ctx.Err() != nil {
			return read, context.Cause(ctx)
		}
		var err error
		if file.Size, file.SHA256, err = hashFile(source, path.Join(listed.Dir, file.Name)); err != nil {
			return read, err
		}
		read.Files = append(read.Files, file)
	}
	return read, nil
}

func hashFile(source fs.FS, name string) (size int64, digest string, err error) {
	file, err := source.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h := sha256.New()
	size, err = io.Copy(h, file)
	return size, hex.EncodeToString(h.Sum(nil)), err
}
