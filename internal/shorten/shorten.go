// Package shorten shortens what people read in errors and records.
package shorten

import (
	"fmt"
	"strings"
)

// To cuts a text to a number of bytes, whole characters of it, with a mark that it was.
func To(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Line is To for the first line of a text.
func Line(s string, most int) string {
	first, _, _ := strings.Cut(s, "\n")
	return To(first, most)
}

// listed is how many names List shows of more.
const listed = 3

// List joins names, the first ones of many with the number of the others.
func List(names []string) string { return ListOf(names, len(names)) }

// ListOf is List for the first ones of some names, given how many these are.
func ListOf(first []string, total int) string {
	if total <= listed+1 && len(first) >= total {
		return strings.Join(first, ", ")
	}
	first = first[:min(listed, len(first))]
	return fmt.Sprintf("%s and %d more", strings.Join(first, ", "), total-len(first))
}
