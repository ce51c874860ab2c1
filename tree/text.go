package tree

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// printable escapes characters that do not print, as in a Go string, so that no name or error
// moves the cursor or reverses the text. With ascii it also escapes whatever is not ASCII.
func printable(s string, ascii bool) string {
	if strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError || ascii && r >= utf8.RuneSelf }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !strconv.IsPrint(r), ascii && r >= utf8.RuneSelf:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// firstLine returns the first line that is not empty.
func firstLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// head returns the beginning of a text.
func head(s string, runesMax int) string {
	for i := range s {
		if runesMax == 0 {
			return s[:i]
		}
		runesMax--
	}
	return s
}

// cut shortens a text to a number of runes, including the mark.
func cut(s string, runesMax int, mark string) string {
	if utf8.RuneCountInString(s) <= runesMax {
		return s
	}
	return head(s, runesMax-utf8.RuneCountInString(mark)) + mark
}

// thousands writes a count with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span writes a duration, rounded for people.
func span(d time.Duration) string {
	unit := time.Minute
	switch {
	case d < time.Second:
		unit = time.Millisecond
	case d < time.Minute:
		unit = 100 * time.Millisecond
	case d < time.Hour:
		unit = time.Second
	}
	s := d.Round(unit).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
