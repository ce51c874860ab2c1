package tree

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// ChildrenShownMax is the default of DrawOptions.ChildrenMax.
const ChildrenShownMax = 20

// DrawOptions controls how a forest is drawn. The zero value draws all levels in
// Unicode, without colours.
type DrawOptions struct {
	// ASCII draws without any Unicode, with letters as marks; names are written in
	// ASCII too.
	ASCII bool
	// Color adds colours by status, with terminal escape sequences.
	Color bool
	// Depth is the number of levels; deeper ones are summed up. 0 means all.
	Depth int
	// ChildrenMax is how many children of one job are drawn, and how many roots. If
	// there are more, those are drawn in order of interest, their own or that of jobs
	// below them: failed, fault and running ones before others. The rest is summed up.
	// 0 means ChildrenShownMax, a negative number all.
	ChildrenMax int
	// Width is the number of runes to which lines are cut. 0 means unlimited.
	Width int
	// Now is the time from which the durations of running jobs are computed; zero omits
	// them.
	Now time.Time
}

// Draw draws the forest for a terminal, one line per job.
func (f *Forest) Draw(w io.Writer, o DrawOptions) error {
	if o.ChildrenMax == 0 {
		o.ChildrenMax = ChildrenShownMax
	}
	a := &artist{f: f, o: o, out: bufio.NewWriter(w), strokes: unicodeStrokes}
	if o.ASCII {
		a.strokes = asciiStrokes
	}
	a.level(f.from, f.to, 1)
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("draw the tree: %w", err)
	}
	return nil
}

// strokes are the characters of branches.
type strokes struct{ branch, corner, pass, gap, more string }

var (
	unicodeStrokes = strokes{"├─ ", "└─ ", "│  ", "   ", "…"}
	asciiStrokes   = strokes{"|- ", "`- ", "|  ", "   ", "..."}
)

// artist draws one forest. Errors of the writer stay in out until it is flushed.
type artist struct {
	f       *Forest
	o       DrawOptions
	out     *bufio.Writer
	strokes strokes
	// indent has the branches of the levels above.
	indent []byte
}

// level draws the siblings of a range, with all below them.
func (a *artist) level(from, to, depth int) {
	if from == to {
		return
	}
	if a.o.Depth > 0 && depth > a.o.Depth {
		var t tally
		t.add(a.f.nodes[from:to])
		a.line(a.branch(depth, true), part{text: fmt.Sprintf("%s %s more below: %s", a.strokes.more, thousands(t.total), t.words())})
		return
	}
	shown, hidden := a.choose(from, to)
	for k, i := range shown {
		last := k == len(shown)-1 && len(hidden) == 0
		a.row(a.branch(depth, last), i)
		before := len(a.indent)
		switch {
		case depth == 1:
		case last:
			a.indent = append(a.indent, a.strokes.gap...)
		default:
			a.indent = append(a.indent, a.strokes.pass...)
		}
		a.level(i+1, a.f.nodes[i].end, depth+1)
		a.indent = a.indent[:before]
	}
	if len(hidden) > 0 {
		a.line(a.branch(depth, true), part{text: a.rest(hidden)})
	}
}

// branch returns what leads to a node, nothing for a root.
func (a *artist) branch(depth int, last bool) string {
	switch {
	case depth == 1:
		return ""
	case last:
		return string(a.indent) + a.strokes.corner
	}
	return string(a.indent) + a.strokes.branch
}

// choose returns the siblings of a range to draw, and the others. If there are too many, the
// most interesting come first, otherwise they keep their order.
func (a *artist) choose(from, to int) (shown, hidden []int) {
	var all []int
	var ranked [len(looks)][]int
	for i := from; i < to; i = a.f.nodes[i].end {
		all = append(all, i)
		interest := a.f.nodes[i].interest
		ranked[interest] = append(ranked[interest], i)
	}
	if a.o.ChildrenMax < 0 || len(all) <= a.o.ChildrenMax {
		return all, nil
	}
	all = all[:0]
	for _, r := range ranked {
		all = append(all, r...)
	}
	return all[:a.o.ChildrenMax], all[a.o.ChildrenMax:]
}

// rest sums up siblings that are not drawn.
func (a *artist) rest(hidden []int) string {
	var t tally
	for _, i := range hidden {
		t.add(a.f.nodes[i:a.f.nodes[i].end])
	}
	below := ""
	if t.total > len(hidden) {
		below = fmt.Sprintf(", %s with all below", thousands(t.total))
	}
	return fmt.Sprintf("%s %s more%s: %s", a.strokes.more, thousands(len(hidden)), below, t.words())
}

// tally counts nodes by how they look.
type tally struct {
	total  int
	counts [len(looks)]int
	// stuck counts the jobs that are blocked for good.
	stuck int
}

func (t *tally) add(nodes []node) {
	t.total += len(nodes)
	for i := range nodes {
		t.counts[nodes[i].look]++
		if nodes[i].stuck {
			t.stuck++
		}
	}
}

// words lists the counts that are not zero.
func (t *tally) words() string {
	var words []string
	for i, n := range t.counts {
		if n > 0 {
			words = append(words, thousands(n)+" "+looks[i].words)
		}
	}
	if t.stuck > 0 {
		words = append(words, thousands(t.stuck)+" of them for good")
	}
	return strings.Join(words, ", ")
}

// part is a piece of a line in one colour.
type part struct{ text, ansi string }

// line writes a line, cut to the width. The parts must be printable.
func (a *artist) line(branch string, parts ...part) {
	whole := utf8.RuneCountInString(branch)
	for _, p := range parts {
		whole += utf8.RuneCountInString(p.text)
	}
	room, tail := whole, ""
	if a.o.Width > 0 && whole > a.o.Width {
		tail = head(a.strokes.more, a.o.Width)
		room = a.o.Width - utf8.RuneCountInString(tail)
	}
	a.out.WriteString(head(branch, room))
	room -= min(room, utf8.RuneCountInString(branch))
	for _, p := range parts {
		a.write(head(p.text, room), p.ansi)
		room -= min(room, utf8.RuneCountInString(p.text))
	}
	a.out.WriteString(tail)
	a.out.WriteByte('\n')
}

func (a *artist) write(text, ansi string) {
	if a.o.Color && ansi != "" && text != "" {
		text = "\x1b[" + ansi + "m" + text + "\x1b[0m"
	}
	a.out.WriteString(text)
}
