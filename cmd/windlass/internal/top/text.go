package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// pad makes a text exactly width cells wide; a cut one ends with an ellipsis.
func pad(s string, width int) string {
	if width <= 0 {
		return ""
	}
	s = ansi.Truncate(s, width, "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

func cut(s string, width int) string { return ansi.Truncate(s, max(0, width), "…") }

// sparks are the heights of a sparkline, the lowest is for nothing.
var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws counts in at most width cells, each of which sums up several counts if
// need be. The highest cell is full; only a cell of zero is the lowest.
func sparkline(counts []int, width int) string {
	if width <= 0 || len(counts) == 0 {
		return ""
	}
	each := (len(counts) + width - 1) / width
	var cells []int
	for end := len(counts); end > 0; end -= each { // from the latest one on
		cells = append(cells, sumOf(counts[max(0, end-each):end]))
	}
	highest := slices.Max(cells)
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

// gauge is a bar of cells that shows a part of a whole.
func gauge(part, whole, cells int) string {
	full := 0
	if whole > 0 {
		full = min(cells, (part*cells+whole-1)/whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// columnSpec is a column of a list. Without room, those of the highest rank are left out
// first; rank 0 never is. One of each list has no width: it gets the rest, and at least
// least.
type columnSpec struct {
	title string
	width int
	least int
	rank  int
	right bool
}

const gap = 1

const columnRanks = 9

// fitting returns the columns for which there is room, with their widths.
func fitting(all []columnSpec, width int) (shown []int, widths []int) {
	for out := columnRanks; ; out-- {
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
}

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

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}
