package loadgen

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// drawn returns the plot, and how many elements of each class are in it.
func drawn(t *testing.T, curves []Curve) (text string, classes map[string]int) {
	t.Helper()
	var b bytes.Buffer
	must(t, WriteSVG(&b, curves))
	text, classes = b.String(), map[string]int{}
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text, classes
		}
		must(t, err)
		if start, ok := token.(xml.StartElement); ok {
			for _, a := range start.Attr {
				if a.Name.Local == "class" {
					classes[a.Value]++
				}
			}
		}
	}
}

func TestWriteSVG_DrawsAPanelForEachCurve(t *testing.T) {
	b := &bench{Config: Config{}, report: &Report{}, ledger: entered(t, 100, [][2]int64{{0, 10}, {1, 20}, {1, -30}}, [][2]int64{{1, 40}})}
	b.curve(PhasePlace, time.Unix(0, 0), line{to: 2, perSecond: 1e8})
	b.curve(PhaseJoin, time.Unix(0, 25), line{from: 2, perSecond: 1e8})
	text, classes := drawn(t, b.report.Curves)
	// Each has one line in the legend as well.
	if classes["title"] != 2 || classes["total"] != 3 || classes["node"] != 7 || classes["limit"] != 3 {
		t.Errorf("elements are %v", classes)
	}
	if !strings.Contains(text, ">place<") || !strings.Contains(text, ">join<") || strings.Contains(text, "NaN") {
		t.Errorf("the plot is %s", text)
	}
	join := b.report.Curves[1]
	if join.Total[0].Tasks != 2 || join.Total[1] != (Point{At: 5, Tasks: 1}) || join.Total[2] != (Point{At: 15, Tasks: 2}) {
		t.Errorf("the curve is %+v", join.Total)
	}
	if want := [2]Point{{Tasks: 2}, {At: 20}}; join.Limit != want {
		t.Errorf("the limit is %+v, want %+v", join.Limit, want)
	}
}

func TestWriteSVG_NothingIsStillAPicture(t *testing.T) {
	drawn(t, nil)
	if text, _ := drawn(t, []Curve{{Phase: PhasePlace}}); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("the plot is %s", text)
	}
}

func TestSteps_AShortDipStaysVisible(t *testing.T) {
	c := Curve{Total: []Point{{Tasks: 10}, {At: 5000, Tasks: 0}, {At: 5001, Tasks: 10}, {At: 1_000_000, Tasks: 10}}}
	var b strings.Builder
	newPanel(c).steps(&b, "total", c.Total)
	if !strings.Contains(b.String(), "V214.0V44.0") {
		t.Errorf("the path is %s", b.String())
	}
}
