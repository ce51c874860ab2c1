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
func List(names []string) string {
	if len(names) <= listed+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
