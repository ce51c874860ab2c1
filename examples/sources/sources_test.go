package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNameOf_NoTwoFoldersHaveTheSame(t *testing.T) {
	names := map[string]string{}
	for _, dir := range []string{".", "net", "net/http", "net:http", "net%2Fhttp", "src", "src/src", "a b", "a+b", "a|b", "_a", "käse", "a\nb"} {
		name := nameOf(dir)
		if other, taken := names[name]; taken {
			t.Errorf("the jobs of %q and %q are both called %q", dir, other, name)
		}
		names[name] = dir
		if path, err := tree.ParsePath(string(listPath.Child(name, typeHash))); err != nil || path.Name() != name {
			t.Errorf("the path of %q is %q, %v", name, path, err)
		}
	}
}

func TestFolders_AreThoseWithGoFiles(t *testing.T) {
	found, err := folders(fstest.MapFS{
		"top.go": {}, "deep/er/x.go": {}, "deep/er/y.go": {}, "none/readme.txt": {}, "deep/testdata/t.go": {}, "_left/l.go": {}, ".git/g.go": {},
	})
	if want := []string{"deep/er", "."}; err != nil || !slices.Equal(found, want) {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}
}

// TestSources_TheReportIsWhatOneFunctionSays runs the jobs over the examples, in virtual
// time.
func TestSources_TheReportIsWhatOneFunctionSays(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		jobs, err := tree.New(c.Connect(), windlasstest.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			c.Start(name, windlass.Config{Handlers: worker{jobs: jobs}.handlers()})
		}
		if err := start(t.Context(), jobs, ".."); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := await(t.Context(), jobs, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		got, err := report(t.Context(), c.Client())
		if err != nil {
			t.Fatal(err)
		}
		if want := direct(t, ".."); fmt.Sprint(got) != fmt.Sprint(want) || got.Folders != 2 {
			t.Errorf("the report says %+v, one function says %+v", got, want)
		}
	})
}

// direct is what the jobs are to arrive at, computed by one function.
func direct(t *testing.T, root string) (s summary) {
	t.Helper()
	dirs, err := folders(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		of, err := hashFolder(t.Context(), os.DirFS(root), dir)
		if err != nil {
			t.Fatal(err)
		}
		s.add(of)
	}
	return s
}
