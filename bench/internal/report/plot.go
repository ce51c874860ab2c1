package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The layout of a plot, in pixels.
const (
	plotLeft, plotTop     = 80, 50
	plotWidth, plotHeight = 520, 260
	plotRight, plotBottom = 190, 50
	legendLine            = 20
)

// plotStyle is readable on light ground and on dark.
const plotStyle = `
    text { font: 12px sans-serif; fill: #555; }
    .title { font-size: 14px; font-weight: bold; }
    .axis { stroke: #8888; fill: none; }
    .c0 { stroke: #2f7fc1; } .c1 { stroke: #d9730d; } .c2 { stroke: #3a9a4b; }
    .c3 { stroke: #b0409f; } .c4 { stroke: #8a8a8a; } .c5 { stroke: #a58b00; }
    .line { stroke-width: 2; fill: none; }
    @media (prefers-color-scheme: dark) { text { fill: #bbb; } }
`

// colours is how many lines differ.
const colours = 6

// Plot has lines over a logarithmic axis.
type Plot struct {
	Title string
	// X and Y name the axes; Y has its unit.
	X, Y  string
	Lines []Line
}

// Line is one of them.
type Line struct {
	Name   string
	Points []Point
}

// Point is a place on a line. Those of which X or Y is not positive have none.
type Point struct{ X, Y float64 }

// WriteSVG draws a plot. Both axes are logarithmic: a cost that does not grow is a
// level line, and one in proportion rises with a slope that is easily seen.
func (p Plot) WriteSVG(out io.Writer) error {
	var b strings.Builder
	width, height := plotLeft+plotWidth+plotRight, plotTop+plotHeight+plotBottom
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", width, height, width, height)
	fmt.Fprintf(&b, "  <title>%s</title>\n  <style>%s  </style>\n", html.EscapeString(p.Title), plotStyle)
	fmt.Fprintf(&b, "  <text class=\"title\" x=\"%d\" y=\"24\">%s</text>\n", plotLeft, html.EscapeString(p.Title))
	fmt.Fprintf(&b, "  <path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", plotLeft, plotTop, plotTop+plotHeight, plotLeft+plotWidth)
	x, y := axisOf(p.Lines, func(pt Point) float64 { return pt.X }), axisOf(p.Lines, func(pt Point) float64 { return pt.Y })
	x.from, x.to, y.from, y.to = plotLeft, plotLeft+plotWidth, plotTop+plotHeight, plotTop
	for _, v := range x.marks() {
		fmt.Fprintf(&b, "  <text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x.at(v), plotTop+plotHeight+18, Number(v))
	}
	for _, v := range y.marks() {
		fmt.Fprintf(&b, "  <text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plotLeft-8, y.at(v)+4, Number(v))
		fmt.Fprintf(&b, "  <path class=\"axis\" d=\"M%d %.1fH%d\"/>\n", plotLeft, y.at(v), plotLeft+plotWidth)
	}
	fmt.Fprintf(&b, "  <text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", plotLeft+plotWidth/2, plotTop+plotHeight+38, html.EscapeString(p.X))
	fmt.Fprintf(&b, "  <text x=\"%d\" y=\"%d\">%s</text>\n", plotLeft, plotTop-10, html.EscapeString(p.Y))
	for i, line := range p.Lines {
		line.draw(&b, i, x, y)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func (l Line) draw(b *strings.Builder, number int, x, y axis) {
	class := number % colours
	var path strings.Builder
	for _, pt := range l.Points {
		if pt.X <= 0 || pt.Y <= 0 {
			continue
		}
		step := "L"
		if path.Len() == 0 {
			step = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", step, x.at(pt.X), y.at(pt.Y))
		fmt.Fprintf(b, "  <circle class=\"line c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n", class, x.at(pt.X), y.at(pt.Y))
	}
	if path.Len() > 0 {
		fmt.Fprintf(b, "  <path class=\"line c%d\" d=\"%s\"/>\n", class, path.String())
	}
	at := plotTop + legendLine*number
	fmt.Fprintf(b, "  <path class=\"line c%d\" d=\"M%d %dh20\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
		class, plotLeft+plotWidth+14, at, plotLeft+plotWidth+40, at+4, html.EscapeString(l.Name))
}

// axis maps values to pixels, by their logarithm.
type axis struct {
	least, most float64
	from, to    float64
}

// axisOf covers all points in whole powers of ten.
func axisOf(lines []Line, of func(Point) float64) axis {
	a := axis{least: math.Inf(1), most: math.Inf(-1)}
	for _, l := range lines {
		for _, pt := range l.Points {
			if v := of(pt); v > 0 {
				a.least, a.most = min(a.least, v), max(a.most, v)
			}
		}
	}
	if a.least > a.most { // there is nothing
		a.least, a.most = 1, 10
	}
	a.least, a.most = math.Pow(10, math.Floor(math.Log10(a.least))), math.Pow(10, math.Ceil(math.Log10(a.most)))
	if a.least == a.most {
		a.most *= 10
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log10(v/a.least)/math.Log10(a.most/a.least)
}

// marks are the powers of ten.
func (a axis) marks() (all []float64) {
	for v := a.least; v <= a.most*1.0001; v *= 10 {
		all = append(all, v)
	}
	return all
}
