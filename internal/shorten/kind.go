package shorten

import (
	"regexp"
	"strings"
)

// kindBytesMax is how much of an error's first line decides about its kind.
const kindBytesMax = 256

// numbered matches a word with a digit in it, with a word before it that says that the
// number matters.
var numbered = regexp.MustCompile(`(?i)(\b(?:code|status|signal|errno|http)[ =:]+)?\w*\d[\w.]*`)

// Kind returns the part of an error that is the same for errors of one kind: its first line,
// with each word that has a digit replaced, except for exit codes and the like.
func Kind(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return numbered.ReplaceAllStringFunc(text[:min(len(text), kindBytesMax)], func(found string) string {
		if prefix := numbered.FindStringSubmatch(found)[1]; prefix != "" {
			return found
		}
		return "0"
	})
}
