package tidy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// instead are words that only this project used for a thing, and what others call it.
var instead = map[string]string{
	"deaf": "unreachable, or ignoring", "rouse": "wake", "tomb": "ended", "obey": "apply, carry out", "disobey": "ignore", "balk": "refuse",
	"homeless": "unplaced", "teller": "publisher", "unwell": "unhealthy", "attended": "administered", "pour": "fill, assign", "wave": "batch", "brief": "short-lived, summary",
}

var (
	camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// forbiddenWords matches them with their endings.
	forbiddenWords = regexp.MustCompile(`(?i)\b(` + strings.Join(sorted(instead), "|") + `)(s|d|ed|ing)?\b`)
)

// wordCheck finds such words in a text, in its identifiers too.
func wordCheck(path, text string) (problems []string) {
	for i, line := range strings.Split(text, "\n") {
		for _, m := range forbiddenWords.FindAllStringSubmatch(camel.ReplaceAllString(line, "$1 $2"), -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %q; write %s", path, i+1, m[0], instead[strings.ToLower(m[1])]))
		}
	}
	return problems
}

func TestTidy_WordsAreThoseOfTheField(t *testing.T) {
	for _, s := range sources(t) {
		if s.path != "cmd/windlass/internal/tidy/words_test.go" {
			report(t, wordCheck(s.path, s.text))
		}
	}
	for path, text := range markdown(t) {
		report(t, wordCheck(path, text))
	}
}

func TestTidy_WordCheckFails(t *testing.T) {
	if got := wordCheck("x.go", "// it obeys\nfunc pourAll(tellerOf, wave int)\n"); len(got) != 4 {
		t.Errorf("it finds %q", got)
	}
	if got := wordCheck("x.go", "// the storyteller carries it out\nfunc tombstone()\n"); len(got) != 0 {
		t.Errorf("it finds %q", got)
	}
}
