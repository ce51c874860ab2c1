package tree

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
)

func TestPattern_Z05_MatchesTheWholeNameAndTheWholeType(t *testing.T) {
	for _, c := range []struct {
		pattern       Pattern
		name, jobType string
		want          bool
	}{
		{Pattern{}, "anything", "alpha", true},
		{Pattern{Name: "file"}, "file", "alpha", true},
		{Pattern{Name: "file"}, "file2", "alpha", false},
		{Pattern{Name: "file"}, "afile", "alpha", false},
		{Pattern{Name: "file|table"}, "table", "alpha", true},
		{Pattern{Name: "file|table"}, "tables", "alpha", false},
		{Pattern{Name: "file|table"}, "afile", "alpha", false},
		{Pattern{Name: "file.*"}, "file2", "alpha", true},
		{Pattern{Name: "(?i)FILE"}, "file", "alpha", true},
		{Pattern{Name: "(?i)FILE", Type: "ALPHA"}, "file", "alpha", false},
		{Pattern{Name: "^file$"}, "file", "alpha", true},
		{Pattern{Name: `\Qa.b`}, "a.b", "alpha", true},
		{Pattern{Name: `\Qa.b`}, "axb", "alpha", false},
		{Pattern{Name: `\Qa.b\E+`}, "a.bbb", "alpha", true},
		{Pattern{Name: "a??b"}, "ab", "alpha", true},
		{Pattern{Type: "alpha"}, "file", "alpha", true},
		{Pattern{Type: "alpha"}, "file", "alphabet", false},
		{Pattern{Name: "file", Type: "beta"}, "file", "alpha", false},
		{Pattern{Name: "x", Type: "alpha"}, "file", "alpha", false},
	} {
		m, err := c.pattern.compile("parent")
		if err != nil {
			t.Errorf("%+v: %v", c.pattern, err)
			continue
		}
		if got := m.matches(c.name, c.jobType); got != c.want {
			t.Errorf("%+v matches %q of type %q: %v", c.pattern, c.name, c.jobType, got)
		}
	}
}

func TestPattern_Z05_WhatDoesNotCompileIsRefusedWithFieldValueAndLimit(t *testing.T) {
	for _, c := range []struct {
		pattern             Pattern
		field, value, limit string
	}{
		{Pattern{Name: "("}, "parent name", "(", "must be a regular expression: missing closing )"},
		{Pattern{Type: "a[z-a]"}, "parent type", "a[z-a]", `must be a regular expression: invalid character class range at "z-a"`},
		{Pattern{Name: "a)|(?:b"}, "parent name", "a)|(?:b", "must be a regular expression: unexpected )"},
		{Pattern{Name: `a\`}, "parent name", `a\`, "must be a regular expression: trailing backslash at end of expression"},
		{Pattern{Name: "(?=a)"}, "parent name", "(?=a)", `must be a regular expression: invalid or unsupported Perl syntax at "(?="`},
		{Pattern{Type: strings.Repeat("x", 1001)}, "parent type", strings.Repeat("x", 1001), "has 1001 bytes; the limit is 1000"},
		{Pattern{Name: strings.Repeat("(", 999) + strings.Repeat(")", 1)}, "parent name", strings.Repeat("(", 999) + ")", "missing closing )"},
	} {
		_, err := c.pattern.compile("parent")
		var bad *windlass.BadInputError
		if !errors.As(err, &bad) || bad.Field != c.field || bad.Value != c.value || !strings.Contains(bad.Limit, c.limit) {
			t.Errorf("%.40q gives %v; want %s %q: %s", c.pattern, err, c.field, c.value, c.limit)
		}
	}
	if _, err := (Pattern{Name: strings.Repeat("x", PatternBytesMax)}).compile("parent"); err != nil {
		t.Errorf("an expression of the greatest length: %v", err)
	}
}

func FuzzPattern(f *testing.F) {
	for _, e := range []string{"", "a", "a|b", "(", "a)|(b", `\Qa`, `\Qa\E`, `\`, "(?m)^a$", "[)]", "a{2,1000}"} {
		f.Add(e, "a")
	}
	f.Fuzz(func(t *testing.T, expression, name string) {
		m, err := (Pattern{Name: expression}).compile("parent")
		var bad *windlass.BadInputError
		switch {
		case err != nil && !errors.As(err, &bad):
			t.Fatalf("%q: %v is no BadInputError", expression, err)
		case err != nil || expression == "":
			return
		}
		// Whoever finds the longest match of the expression itself knows as well
		// whether it matches the whole.
		longest := regexp.MustCompile(expression)
		longest.Longest()
		at := longest.FindStringIndex(name)
		if whole := at != nil && at[0] == 0 && at[1] == len(name); whole != m.matches(name, "") {
			t.Fatalf("%q matches %q: %v", expression, name, !whole)
		}
	})
}

// a{1000} is short, and takes a thousand steps at each character of each job.
func TestPattern_RepeatsOnlySoOften(t *testing.T) {
	words := make([]string, 150)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	for expression, ok := range map[string]bool{
		"file-[0-9]{4}-[0-9]{2}": true, ".*(daily|weekly).*": true, strings.Join(words, "|"): true, "[a-z]{1,128}": true,
		"(?:ab){99}": true, "a{0,200}": true,
		"a{1000}": false, ".{0,999}": false, "(?:a{10}){30}": false, strings.Repeat("a{150}", 2): false, strings.Repeat("a?", 201): false,
		"(?:(?:a{9}){9}){9}": false,
	} {
		_, err := Pattern{Name: expression}.compile("parent")
		if ok && err != nil || !ok && !strings.Contains(fmt.Sprint(err), "more than 200 steps") {
			t.Errorf("%.60s: %v", expression, err)
		}
	}
}
