package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/keys"
)

func TestParsePath_Z04_BothSpellingsAreTheSamePath(t *testing.T) {
	const want = Path("requestFile_alpha/downloadFile_alpha/processFile_alpha")
	for _, text := range []string{
		"requestFile_alpha/downloadFile_alpha/processFile_alpha",
		"/requestFile_alpha/downloadFile_alpha/processFile_alpha",
		"requestFile_alpha|downloadFile_alpha|processFile_alpha",
	} {
		p, err := ParsePath(text)
		if err != nil || p != want {
			t.Errorf("ParsePath(%q) = %q, %v", text, p, err)
		}
	}
	if got := want.ID(); got != "requestFile_alpha|downloadFile_alpha|processFile_alpha" {
		t.Errorf("its ID is %q", got)
	}
	if got := want.String(); got != string(want) {
		t.Errorf("it prints as %q", got)
	}
}

func TestParsePath_Z02_WhatNoJobCanHaveIsRefusedWithFieldValueAndLimit(t *testing.T) {
	long := strings.Repeat("x", keys.TaskIDBytesMax) + "_t"
	for _, c := range []struct{ text, value, limit string }{
		{"", "", "must not be empty"},
		{"/", "/", "must not be empty"},
		{"a", "a", `"a" is not a name and a type joined by an underscore`},
		{"//a_t", "//a_t", "not a name and a type"},
		{"a_t/", "a_t/", "not a name and a type"},
		{"|a_t", "|a_t", "not a name and a type"},
		{"a_t/b_t|c_t", "a_t/b_t|c_t", "not both"},
		{"/a_t|b_t", "/a_t|b_t", "not both"},
		{"a b_t", "a b_t", "not a name and a type"},
		{"_t", "_t", "must not begin with an underscore"},
		{"a_t\x1b[31m", "a_t\x1b[31m", "must not contain"},
		{long, long, "has 514 bytes; the limit is 512"},
		{strings.Repeat("/a_t", keys.JobDepthMax+1), "", "has 65 levels; the limit is 64"},
	} {
		p, err := ParsePath(c.text)
		var bad *windlass.BadInputError
		if p != "" || !errors.As(err, &bad) || bad.Field != "job path" || !strings.Contains(bad.Limit, c.limit) {
			t.Errorf("ParsePath(%q) = %q, %v; want a limit with %q", c.text, p, err, c.limit)
			continue
		}
		if c.value != "" && bad.Value != c.value {
			t.Errorf("ParsePath(%q) is refused with the value %q, want %q", c.text, bad.Value, c.value)
		}
		if said := err.Error(); len(said) > 300 {
			t.Errorf("ParsePath(%q) says it in %d bytes", c.text, len(said))
		}
	}
}

func TestPath_Z02_ItsPartsReadBack(t *testing.T) {
	for _, c := range []struct {
		path, parent  Path
		name, jobType string
		depth         int
	}{
		{"", "", "", "", 0},
		{"a_t", "", "a", "t", 1},
		{"a_t/b_c_u", "a_t", "b_c", "u", 2},
		{"a_t/b_u/käse_v", "a_t/b_u", "käse", "v", 3},
	} {
		p := c.path
		if p.Parent() != c.parent || p.Name() != c.name || p.Type() != c.jobType || p.Depth() != c.depth {
			t.Errorf("%q has parent %q, name %q, type %q, depth %d", p, p.Parent(), p.Name(), p.Type(), p.Depth())
		}
		if p != "" && c.parent.Child(c.name, c.jobType) != p {
			t.Errorf("it is not the child of its parent: %q", c.parent.Child(c.name, c.jobType))
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, text := range []string{"", "/", "a_t", "/a_t/b_t", "a_t|b_t", "a_t/b_t|c_t", "a__t", "a_b_t/käse_t", "a_t//b_t", "..", "a_t\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			var bad *windlass.BadInputError
			if !errors.As(err, &bad) {
				t.Fatalf("ParsePath(%q): %v is no BadInputError", text, err)
			}
			return
		}
		for _, again := range []string{p.String(), "/" + p.String(), p.ID()} {
			if q, err := ParsePath(again); err != nil || q != p {
				t.Fatalf("%q is read as %q, %v; want %q", again, q, err, p)
			}
		}
		if err := keys.CheckJobID(p.ID()); err != nil {
			t.Fatalf("%q has the ID %q: %v", p, p.ID(), err)
		}
		levels := 0
		for q := p; q != ""; q = q.Parent() {
			levels++
			if q.Parent().Child(q.Name(), q.Type()) != q {
				t.Fatalf("%q is not the child %q of type %q of %q", q, q.Name(), q.Type(), q.Parent())
			}
		}
		if levels != p.Depth() {
			t.Fatalf("%q has depth %d but %d levels", p, p.Depth(), levels)
		}
	})
}
