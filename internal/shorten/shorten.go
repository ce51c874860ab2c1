// Package shorten shortens what people read in errors and records.
package shorten

import "strings"

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
