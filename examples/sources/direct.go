package main

import (
	"context"
	"io/fs"
)

// direct is what the jobs are to arrive at, computed by one function.
func direct(ctx context.Context, source fs.FS) (summary, error) {
	found, err := walk(source)
	if err != nil {
		return summary{}, err
	}
	return found.sum(ctx, source, ".")
}

// sum sums up a folder with all below it.
func (all folders) sum(ctx context.Context, source fs.FS, dir string) (summary, error) {
	var entries []summary
	if all[dir].isPackage {
		files, err := list(source, dir)
		if err == nil {
			files, err = hash(ctx, source, files)
		}
		if err != nil {
			return summary{}, err
		}
		entries = append(entries, summarize(files))
	}
	for _, below := range all[dir].below {
		entry, err := all.sum(ctx, source, below)
		if err != nil {
			return summary{}, err
		}
		entries = append(entries, entry)
	}
	return merge(dir, entries).summary, nil
}
