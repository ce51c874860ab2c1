package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames_AreLegalAndNoTwoFoldersHaveTheSame(t *testing.T) {
	names := map[string]string{}
	for _, dir := range []string{
		".", "net", "net/http", "net:http", "net%2Fhttp", "net%3Ahttp", "src", "src/src", "a b", "a+b", "a|b", `a\b`, "_a", "a_b", "a@1", "a/@1",
		"..a", "...", "käse", "\xff", "\U0001f600", "a\nb", "a.b", "~",
	} {
		name := nameOf(dir)
		for _, name := range []string{name, partOf(name, 1), partOf(name, 2)} {
			if other, taken := names[name]; taken {
				t.Errorf("the jobs of %q and %q are both called %q", dir, other, name)
			}
			names[name] = dir
			if path, err := tree.ParsePath(string(mergePath(name))); err != nil || path.Name() != name || path.Type() != typeMerge {
				t.Errorf("the path of %q is %q, %v", name, path, err)
			}
		}
		if path, err := tree.ParsePath(string(hashPath(dir))); err != nil || path.Name() != name || path.Parent() != packagePath(dir) {
			t.Errorf("the path of the hash of %q is %q, %v", dir, path, err)
		}
	}
	if got := nameOf("net/http"); got != "src:net:http" {
		t.Errorf("net/http is called %q", got)
	}
}

// small is a source tree with a folder of more subfolders than one merge takes.
func small() fstest.MapFS {
	files := fstest.MapFS{
		"top.go": {Data: []byte("package top")}, "deep/er/x.go": {Data: []byte("package x")}, "deep/er/y.go": {Data: []byte("package x // y")},
		"none/readme.txt": {}, "deep/testdata/t.go": {}, "_left/l.go": {}, ".git/g.go": {}, "a b/s.go": {Data: []byte("package s")},
	}
	for i := range 2*needsMost + 1 {
		files[fmt.Sprintf("wide/w%d/w.go", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "package w%d", i)}
	}
	return files
}

func TestWalk_FindsFoldersWithGoFilesAndThoseAboveThem(t *testing.T) {
	found, err := walk(small())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := found["."].below, []string{"a b", "deep", "wide"}; !slices.Equal(got, want) {
		t.Errorf("below the top are %q, want %q", got, want)
	}
	for dir, isPackage := range map[string]bool{".": true, "deep": false, "deep/er": true, "wide": false, "wide/w7": true} {
		if f := found[dir]; f == nil || f.isPackage != isPackage {
			t.Errorf("%s is %+v", dir, f)
		}
	}
	for _, dir := range []string{"none", "deep/testdata", "_left", ".git"} {
		if found[dir] != nil {
			t.Errorf("%s is among them", dir)
		}
	}
}

func TestMerges_NeedAtMostSoManyAndAllThatIsBelow(t *testing.T) {
	found, err := walk(small())
	if err != nil {
		t.Fatal(err)
	}
	requests := found.merges("/", "wide")
	if n := len(requests); n != 4 {
		t.Errorf("of %d folders %d merges are made, want 3 of parts and the whole", 2*needsMost+1, n)
	}
	needed := map[string]bool{}
	for _, r := range requests {
		if n := len(r.Spec.Needs); n > needsMost || n+1 > windlass.NeedsMax {
			t.Errorf("%s needs %d jobs", r.Name, n)
		}
		for _, need := range r.Spec.Needs {
			needed[need] = true
		}
	}
	for _, dir := range found["wide"].below {
		if !needed[mergePath(nameOf(dir)).ID()] {
			t.Errorf("%s is in no merge", dir)
		}
	}
}

func TestQueueAll_TwiceIsAsOnce(t *testing.T) {
	store := memory.New()
	defer store.Close()
	jobs, err := tree.New(store.Broker(), "")
	if err != nil {
		t.Fatal(err)
	}
	found, err := walk(small())
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t.Context(), jobs, "/"); err != nil {
		t.Fatal(err)
	}
	var counts [2]int
	var drawn [2]bytes.Buffer
	for i := range counts {
		if counts[i], err = queueAll(t.Context(), jobs, "/", found); err != nil {
			t.Fatal(err)
		}
		forest, err := jobs.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if forest.Len() != counts[i]+1 {
			t.Errorf("there are %d jobs, of which %d were queued below the first", forest.Len(), counts[i])
		}
		for _, job := range forest.Jobs() {
			fmt.Fprintln(&drawn[i], job.Path, job.Status, job.Needs, job.BlockedBy, string(job.Data))
		}
	}
	if counts[0] != counts[1] || drawn[0].String() != drawn[1].String() {
		t.Errorf("once:\n%s\ntwice:\n%s", &drawn[0], &drawn[1])
	}
}

// write writes a source tree to a folder.
func write(t *testing.T, files fs.FS) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	if err := os.CopyFS(root, files); err != nil {
		t.Fatal(err)
	}
	return root
}
