package loadgen

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// The layout of a plot, in pixels: panels side by side, each with room for its
// title above, its times below and its numbers on the left.
const (
	panelColumns = 2
	panelWidth   = 460
	panelHeight  = 270
	plotLeft     = 70
	plotTop      = 44
	plotWidth    = 360
	plotHeight   = 170
	legendHeight = 34
)

// plotStyle is readable on light ground and on dark.
const plotStyle = `
    text { font: 12px sans-serif; fill: #555; }
    .title { font-size: 14px; font-weight: bold; }
    .axis { stroke: #8888; fill: none; }
    .total { stroke: #2f7fc1; stroke-width: 2; fill: none; }
    .node { stroke: #8a8a8a; stroke-width: 1; fill: none; }
    .limit { stroke: #d9730d; stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
    @media (prefers-color-scheme: dark) { text { fill: #bbb; } }
`

// WriteSVG draws curves, one panel for each.
func WriteSVG(out io.Writer, curves []Curve) error {
	var b strings.Builder
	rows := (len(curves) + panelColumns - 1) / panelColumns
	width, height := panelColumns*panelWidth, rows*panelHeight+legendHeight
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", width, height, width, height)
	fmt.Fprintf(&b, "  <title>windlass bench: running tasks over time</title>\n  <style>%s  </style>\n", plotStyle)
	drawLegend(&b)
	for i, c := range curves {
		fmt.Fprintf(&b, "  <g transform=\"translate(%d %d)\">\n", i%panelColumns*panelWidth, legendHeight+i/panelColumns*panelHeight)
		newPanel(c).draw(&b, c)
		b.WriteString("  </g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func drawLegend(b *strings.Builder) {
	x := plotLeft
	for _, entry := range []struct{ class, text string }{
		{"total", "tasks running"}, {"node", "on each node"}, {"limit", "at the broker's raw rate of claims"},
	} {
		fmt.Fprintf(b, "  <path class=\"%s\" d=\"M%d 20h30\"/><text x=\"%d\" y=\"24\">%s</text>\n", entry.class, x, x+38, entry.text)
		x += 190
	}
}

// panel maps times and numbers of tasks to pixels.
type panel struct {
	end  time.Duration
	most int
}

func newPanel(c Curve) panel {
	p := panel{end: c.Limit[1].At, most: max(c.Limit[0].Tasks, c.Limit[1].Tasks, 1)}
	for _, point := range c.Total {
		p.end, p.most = max(p.end, point.At), max(p.most, point.Tasks)
	}
	p.end = max(p.end, time.Microsecond)
	return p
}

func (p panel) x(at time.Duration) float64 {
	return plotLeft + plotWidth*min(1, float64(at)/float64(p.end))
}

func (p panel) y(tasks int) float64 {
	return plotTop + plotHeight*(1-float64(tasks)/float64(p.most))
}

func (p panel) draw(b *strings.Builder, c Curve) {
	fmt.Fprintf(b, "    <text class=\"title\" x=\"%d\" y=\"%d\">%s</text>\n", plotLeft, plotTop-16, c.Phase)
	fmt.Fprintf(b, "    <path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", plotLeft, plotTop, plotTop+plotHeight, plotLeft+plotWidth)
	const ticks = 4
	for i := range ticks + 1 {
		at := p.end * time.Duration(i) / ticks
		fmt.Fprintf(b, "    <text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", p.x(at), plotTop+plotHeight+18, timeText(at, p.end))
	}
	// Halves that are no whole number would repeat or mislead.
	for _, tasks := range []int{0, p.most / 2, p.most} {
		fmt.Fprintf(b, "    <text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plotLeft-8, p.y(tasks)+4, withCommas(int64(tasks)))
	}
	for _, points := range c.Nodes {
		p.steps(b, "node", points)
	}
	p.steps(b, "total", c.Total)
	fmt.Fprintf(b, "    <path class=\"limit\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
		p.x(c.Limit[0].At), p.y(c.Limit[0].Tasks), p.x(c.Limit[1].At), p.y(c.Limit[1].Tasks))
}

// timeText labels a time on an axis of some length.
func timeText(at, of time.Duration) string {
	if of < 2*time.Second {
		return number(float64(at.Round(of/1000))/float64(time.Millisecond)) + " ms"
	}
	return number(at.Seconds()) + " s"
}

// steps draws numbers that hold until the next one. Of all that fall on one column
// of pixels it draws the least and the last, so that a short dip stays visible.
func (p panel) steps(b *strings.Builder, class string, points []Point) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(b, "    <path class=\"%s\" d=\"M%.1f %.1f", class, p.x(points[0].At), p.y(points[0].Tasks))
	for i := 1; i < len(points); {
		column := int(p.x(points[i].At))
		least, last := points[i].Tasks, points[i].Tasks
		for ; i < len(points) && int(p.x(points[i].At)) == column; i++ {
			last = points[i].Tasks
			least = min(least, last)
		}
		fmt.Fprintf(b, "H%d", column)
		if least < last {
			fmt.Fprintf(b, "V%.1f", p.y(least))
		}
		fmt.Fprintf(b, "V%.1f", p.y(last))
	}
	fmt.Fprintf(b, "H%d\"/>\n", plotLeft+plotWidth)
}
