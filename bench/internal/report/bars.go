package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The layout of bars, in pixels.
const (
	barsLeft, barsTop, barsWidth, barsRight = 200, 50, 420, 170
	barHeight, barStep, groupGap            = 14, 20, 26
)

// barStyle is what bars need besides.
const barStyle = "  .bar { stroke-width: 14; } .spread { stroke: #555; stroke-width: 2; }\n"

// Bars are what some sides needed or reached, in groups.
type Bars struct {
	Title  string
	Groups []Group
}

// Group has the bars of one row of a table.
type Group struct {
	Name string
	Unit string
	Bars []Bar
}

// Bar is one side's, which is in some column of the table: the median, and the least and
// the most of all repetitions.
type Bar struct {
	Name                string
	Column              int
	Median, Least, Most float64
}

// Bars draws some rows of a workload, each as a group of its sides in the order of the
// table's columns. Rows and sides of which nothing was measured are left out.
func (w *Workload) Bars(title string, rows ...string) Bars {
	b := Bars{Title: title}
	for _, row := range rows {
		g := Group{Name: row}
		for column, side := range w.Sides {
			if m := w.Find(row, side.Name); m != nil && m.Count > 0 {
				g.Unit = m.Unit
				g.Bars = append(g.Bars, Bar{Name: side.Name, Column: column, Median: m.Median, Least: m.Least, Most: m.Most})
			}
		}
		if len(g.Bars) > 0 {
			b.Groups = append(b.Groups, g)
		}
	}
	return b
}

// WriteSVG draws the bars. Each group has an axis of its own, from zero to its greatest
// value; a line over a bar reaches from the least to the most.
func (b Bars) WriteSVG(out io.Writer) error {
	height := barsTop
	for _, g := range b.Groups {
		height += groupGap + barStep*len(g.Bars)
	}
	var s strings.Builder
	width := barsLeft + barsWidth + barsRight
	fmt.Fprintf(&s, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", width, height, width, height)
	fmt.Fprintf(&s, "  <title>%s</title>\n  <style>%s  </style>\n", html.EscapeString(b.Title), plotStyle+barStyle)
	fmt.Fprintf(&s, "  <text class=\"title\" x=\"8\" y=\"24\">%s</text>\n", html.EscapeString(b.Title))
	y := barsTop
	for _, g := range b.Groups {
		y = g.draw(&s, y)
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(out, s.String())
	return err
}

// draw draws a group from some height downwards, and returns where the next one begins.
func (g Group) draw(s *strings.Builder, y int) int {
	most := 0.0
	for _, bar := range g.Bars {
		most = max(most, bar.Most)
	}
	length := func(v float64) float64 {
		if most == 0 {
			return 0
		}
		return barsWidth * v / most
	}
	fmt.Fprintf(s, "  <text x=\"8\" y=\"%d\">%s</text>\n", y+4, html.EscapeString(g.Name))
	y += barStep / 2
	for _, bar := range g.Bars {
		middle := y + barHeight/2
		fmt.Fprintf(s, "  <text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", barsLeft-8, middle+4, html.EscapeString(bar.Name))
		fmt.Fprintf(s, "  <path class=\"bar c%d\" d=\"M%d %dh%.1f\"/>\n", bar.Column%colours, barsLeft, middle, length(bar.Median))
		fmt.Fprintf(s, "  <path class=\"spread\" d=\"M%.1f %dH%.1f\"/>\n", barsLeft+length(bar.Least), middle, barsLeft+length(bar.Most))
		fmt.Fprintf(s, "  <text x=\"%.1f\" y=\"%d\">%s</text>\n", barsLeft+length(bar.Most)+8, middle+4, html.EscapeString(WithUnit(bar.Median, g.Unit)))
		y += barStep
	}
	return y + groupGap - barStep/2
}
