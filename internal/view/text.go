package view

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Printable keeps what a task or node calls itself from moving the cursor.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
}

// Age is how long ago something was, as people say it; "-" if that is not known.
func Age(at *time.Time, now time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return Span(now.Sub(*at))
}

// Span is a duration in one unit, rounded down; one below zero counts as zero.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// OrDash is a text, or a dash for none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
