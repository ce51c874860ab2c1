package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// pad makes a text exactly so many cells wide: what is longer is cut, with a sign
// that it was.
func pad(s string, width int) string {
	if width <= 0 {
		return ""
	}
	s = ansi.Truncate(s, width, "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// cut makes a text at most so many cells wide.
func cut(s string, width int) string { return ansi.Truncate(s, max(0, width), "…") }

// sparks are the heights of a sparkline, the lowest is for nothing.
var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws counts in at most so many cells, each as many counts as it takes.
// The highest cell is full; one with anything is never the lowest.
func sparkline(counts []int, width int) string {
	if width <= 0 || len(counts) == 0 {
		return ""
	}
	each := (len(counts) + width - 1) / width
	var cells []int
	for end := len(counts); end > 0; end -= each { // from the latest one on
		sum := 0
		for _, n := range counts[max(0, end-each):end] {
			sum += n
		}
		cells = append(cells, sum)
	}
	highest := 0
	for _, n := range cells {
		highest = max(highest, n)
	}
	line := make([]rune, len(cells))
	for i, n := range cells {
		at := 0
		if n > 0 {
			at = max(1, n*(len(sparks)-1)/highest)
		}
		line[len(cells)-1-i] = sparks[at]
	}
	return string(line)
}

// gauge is a bar of so many cells for a part of a whole.
func gauge(part, whole, cells int) string {
	full := 0
	if whole > 0 {
		full = min(cells, (part*cells+whole-1)/whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// columnSpec is a column of a list. Those that are left out first when there is no room have the
// highest rank; 0 is never left out. One of each list has no width: it gets the rest,
// and at least least.
type columnSpec struct {
	title string
	width int
	least int
	rank  int
	right bool
}

// gap is between two columns.
const gap = 1

// columnRanks is the highest rank of a column.
const columnRanks = 9

// fitting are the columns for which there is room, with their widths.
func fitting(all []columnSpec, width int) (shown []int, widths []int) {
	for out := columnRanks; out >= 0; out-- {
		shown, widths = nil, nil
		need, rest := -gap, -1
		for i, c := range all {
			if c.rank > out {
				continue
			}
			if c.width == 0 {
				rest = len(shown)
			}
			need += gap + max(c.width, c.least)
			shown, widths = append(shown, i), append(widths, max(c.width, c.least))
		}
		if need <= width || out == 0 {
			if rest >= 0 {
				widths[rest] = max(1, widths[rest]+width-need)
			}
			return shown, widths
		}
	}
	return nil, nil
}

// line lays cells out.
func line(all []columnSpec, shown, widths []int, cells []string) string {
	parts := make([]string, len(shown))
	for i, at := range shown {
		text := cells[at]
		if parts[i] = pad(text, widths[i]); all[at].right && ansi.StringWidth(text) < widths[i] {
			parts[i] = strings.Repeat(" ", widths[i]-ansi.StringWidth(text)) + text
		}
	}
	return strings.Join(parts, strings.Repeat(" ", gap))
}

// firstWord is a text up to the first mark or space.
func firstWord(s string) string {
	if i := strings.IndexAny(s, " ,:;"); i >= 0 {
		return s[:i]
	}
	return s
}

// rate is a number of things in a second.
func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}
