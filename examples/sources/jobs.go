package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// The types of the jobs.
const (
	typeList = "list"
	typeHash = "hash"
	typeSum  = "sum"
)

// The jobs that there is one of.
var (
	listPath   = tree.Path("").Child("src", typeList)
	reportPath = tree.Path("").Child("all", typeSum)
)

// nameOf is what the job of a folder is called: src:net:http for net/http. What a
// name must not contain, and the colon, is escaped as in a URL, so no two folders
// have the same name.
func nameOf(dir string) string {
	if dir == "." {
		return "src"
	}
	return "src:" + strings.ReplaceAll(url.QueryEscape(dir), "%2F", ":")
}

// data is what a job is queued with: the folder of the source tree, which all nodes
// have, and one in it, with slashes.
type data struct{ Root, Dir string }

// summary is what a hash or a sum leaves as its result.
type summary struct {
	Folders, Files int
	Bytes          int64
	// Digest combines those of all files, so that it is the same in any order.
	Digest []byte
}

func (s *summary) add(o summary) {
	s.Folders, s.Files, s.Bytes = s.Folders+o.Folders, s.Files+o.Files, s.Bytes+o.Bytes
	if s.Digest == nil {
		s.Digest = make([]byte, sha256.Size)
	}
	for i := range o.Digest {
		s.Digest[i] ^= o.Digest[i]
	}
}

// summaryOf reads what another job has left.
func summaryOf(results map[string]json.RawMessage, id string) (s summary, err error) {
	return s, json.Unmarshal(results[id], &s)
}

// start queues the report, which needs all that will be below the list, and the list.
func start(ctx context.Context, jobs *tree.Tree, root string) error {
	report := request(reportPath.Name(), typeSum, "", data{})
	report.Spec.Needs = []string{listPath.All()}
	_, err := jobs.Queue(ctx, report, request(listPath.Name(), typeList, "", data{Root: root}))
	return err
}

func request(name, jobType string, parent tree.Path, d data) tree.Request {
	value, _ := json.Marshal(d) // plain fields cannot fail
	return tree.Request{Name: name, Type: jobType, Parent: parent, Data: value}
}

// worker runs the jobs of a node. Every handler only reads the sources and leaves a
// result, so it does no harm that a job runs twice when its node dies.
type worker struct{ jobs *tree.Tree }

func (w worker) handlers() map[string]windlass.NewHandler {
	return map[string]windlass.NewHandler{
		typeList: windlass.HandlerFunc(w.list), typeHash: windlass.HandlerFunc(hash), typeSum: windlass.HandlerFunc(sum),
	}
}

// list finds all folders and queues the jobs for them. It may be run again after its
// node has died: what it queued before is then what it queues again, and all of it still
// pending, because none starts before the list is completed.
func (w worker) list(ctx context.Context, c *windlass.Claim) error {
	var d data
	if err := json.Unmarshal(c.Props(), &d); err != nil {
		return windlass.Permanent(err)
	}
	dirs, err := folders(os.DirFS(d.Root))
	switch {
	case err != nil:
		return err
	case len(dirs) == 0:
		return windlass.Permanent(errors.New("there are no Go files in " + d.Root))
	}
	_, err = w.jobs.Queue(ctx, requests(d.Root, dirs)...)
	if errors.As(err, new(*windlass.BadInputError)) { // such as a path that is too long for a name
		return windlass.Permanent(err)
	}
	return err
}

// requests are the jobs for some folders: a hash of each.
func requests(root string, dirs []string) (all []tree.Request) {
	for _, dir := range dirs {
		all = append(all, request(nameOf(dir), typeHash, listPath, data{root, dir}))
	}
	return all
}

// hash reads the Go files of a folder.
func hash(ctx context.Context, c *windlass.Claim) error {
	var d data
	if err := json.Unmarshal(c.Props(), &d); err != nil {
		return windlass.Permanent(err)
	}
	s, err := hashFolder(ctx, os.DirFS(d.Root), d.Dir)
	if err != nil {
		return err
	}
	return c.SetResult(s)
}

func hashFolder(ctx context.Context, source fs.FS, dir string) (s summary, err error) {
	files, err := fs.ReadDir(source, dir)
	for _, file := range files {
		if !isSource(file) {
			continue
		}
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		name := path.Join(dir, file.Name())
		text, err := fs.ReadFile(source, name)
		if err != nil {
			return s, err
		}
		digest := sha256.Sum256(append([]byte(name+"\n"), text...))
		s.add(summary{Files: 1, Bytes: int64(len(text)), Digest: digest[:]})
	}
	s.Folders = 1
	return s, err
}

// sum adds up what all below the list have left.
func sum(ctx context.Context, c *windlass.Claim) error {
	results, err := c.Results(ctx, listPath.All())
	if err != nil {
		return err
	}
	var total summary
	for id := range results {
		s, err := summaryOf(results, id)
		if err != nil {
			return windlass.Permanent(fmt.Errorf("result of job %s: %w", id, err))
		}
		total.add(s)
	}
	return c.SetResult(total)
}

// folders finds those that hold Go files, in order. As the go command does it leaves out
// testdata and what begins with a dot or an underscore, but not vendor.
func folders(source fs.FS) (dirs []string, err error) {
	err = fs.WalkDir(source, ".", func(at string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return fs.SkipDir
		case isSource(entry) && !slices.Contains(dirs, path.Dir(at)):
			dirs = append(dirs, path.Dir(at))
		}
		return nil
	})
	return dirs, err
}

func isSource(entry fs.DirEntry) bool {
	return entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), ".go")
}
