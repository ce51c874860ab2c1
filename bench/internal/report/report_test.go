package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the files in testdata that are generated")

// example has one of everything that a report can have.
func example() *Report {
	r := &Report{
		Date: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), Took: 90 * time.Second, Quick: true,
		Machine: []Fact{{"processors", "2 of a kind"}}, Versions: []Fact{{"etcd", "3.7.3"}},
		Checks: []Check{{What: "it is faster", Got: "1.20×", Holds: true}, {What: "it does not | grow", Got: "3×"}},
	}
	r.LeaveOut("River: %s", "there is no PostgreSQL")
	w := r.Begin(Workload{Name: "jobs", Title: "Jobs", About: "What they are.", Sides: []Side{
		{Name: "ours", Settings: "all on disk"}, {Name: "theirs", Settings: "some on disk"}, {Name: "nobody's", Settings: "not measured"},
	}})
	w.Add("rate", "ours", PerSecond, 12345.6, 10000, 11000)
	w.Add("rate", "theirs", PerSecond, 950)
	w.Add("time | each", "ours", Milliseconds, 0.1234, 0.5)
	w.Add("hidden", "theirs", Milliseconds, 7).Detail = true
	r.Begin(Workload{Name: "empty", Title: "Nothing", About: "It failed."})
	return r
}

// golden compares with a file of testdata, or rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is written now; go test ./internal/report -update, and read the difference:\n%s", path, got)
	}
}

func TestMarkdown_IsAsWrittenDown(t *testing.T) {
	var out bytes.Buffer
	if err := example().Markdown(&out, 3); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md", out.Bytes())
}

func TestWrite_IsAsWrittenDownAndCanBeRead(t *testing.T) {
	var out bytes.Buffer
	if err := example().Write(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", out.Bytes())
	r, err := Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var again, first bytes.Buffer
	if err := errors.Join(r.Markdown(&again, 3), example().Markdown(&first, 3)); err != nil {
		t.Fatal(err)
	}
	if again.String() != first.String() {
		t.Errorf("what was read is another report:\n%s", again.String())
	}
}

func TestRead_RefusesFiguresThatAreNotThoseOfTheSamples(t *testing.T) {
	var out bytes.Buffer
	if err := example().Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		strings.Replace(out.String(), `"median": 950`, `"median": 9500`, 1),
		strings.Replace(out.String(), `"quick"`, `"quickly"`, 1),
		"{",
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("it is read: %.60s", bad)
		}
	}
}

func TestInsert_ReplacesWhatIsBetweenTheMarks(t *testing.T) {
	before := "above\n" + BeginMark + "\nstale\n" + EndMark + "\nbelow\n"
	once, err := example().Insert(before, 3)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := example().Insert(once, 3)
	if err != nil {
		t.Fatal(err)
	}
	if once != twice {
		t.Error("a second time changes something")
	}
	if strings.Contains(once, "stale") || !strings.HasPrefix(once, "above\n") || !strings.HasSuffix(once, "\nbelow\n") || !strings.Contains(once, "### Jobs") {
		t.Errorf("it is now %s", once)
	}
	for _, bad := range []string{"", BeginMark, EndMark + BeginMark, BeginMark + EndMark + EndMark} {
		if _, err := example().Insert(bad, 3); err == nil {
			t.Errorf("%q takes a report", bad)
		}
	}
}

func TestBegin_AgainIsTheSameWorkload(t *testing.T) {
	r := example()
	if r.Begin(Workload{Name: "jobs", Title: "Another"}) != r.Workload("jobs") || len(r.Workloads) != 2 {
		t.Errorf("there are %d workloads", len(r.Workloads))
	}
	if r.Workload("none") != nil {
		t.Error("there is one that was not begun")
	}
}

func TestNumber_IsShortAndWholeNumbersAreWhole(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}

func TestWriteSVG_IsAsWrittenDownAndWellFormed(t *testing.T) {
	p := Plot{Title: "a < b", X: "tasks", Y: "µs", Lines: []Line{
		{Name: "place", Points: []Point{{100, 50}, {1000, 20}, {0, 3}, {10_000, 25}}}, {Name: "nothing"},
	}}
	var out bytes.Buffer
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "plot.svg", out.Bytes())
	for decoder := xml.NewDecoder(&out); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteSVG_OfNothingIsEmptyAxes(t *testing.T) {
	var out bytes.Buffer
	if err := (Plot{Title: "none"}).WriteSVG(&out); err != nil || strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestBars_ShowEachSideOfARowToScale(t *testing.T) {
	w := &Workload{Sides: []Side{{Name: "a < b"}, {Name: "c"}, {Name: "idle"}}}
	w.Add("fast", "a < b", PerSecond, 50, 100, 60)
	w.Add("fast", "c", PerSecond, 25)
	bars := w.Bars("rates", "fast", "nothing of this")
	if len(bars.Groups) != 1 || len(bars.Groups[0].Bars) != 2 {
		t.Fatalf("they are %+v", bars)
	}
	var out bytes.Buffer
	if err := bars.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	var any struct{}
	if err := xml.Unmarshal(out.Bytes(), &any); err != nil {
		t.Errorf("it is no XML: %v", err)
	}
	for _, want := range []string{"a &lt; b", "60/s", "h252.0", "h105.0", "M410.0 67H620.0"} { // of 420 pixels for the most, 100
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
	out.Reset()
	if err := (Bars{Title: "none"}).WriteSVG(&out); err != nil || strings.Contains(out.String(), "NaN") {
		t.Errorf("nothing is drawn as %s (%v)", out.String(), err)
	}
}

func TestKeep_TakesOverWhatWasNotMeasuredAgain(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	make := func(date time.Time, version string, workloads ...string) *Report {
		r := &Report{Date: date, Machine: []Fact{{"processors", "2"}, {"load before the run", date.String()}}, Versions: []Fact{{"etcd", version}}}
		for _, name := range workloads {
			r.Versions = append(r.Versions, Fact{"what " + name + " needs", "1"}) // and what is measured again does not
			r.Begin(Workload{Name: name}).Add("row", "side", PerSecond, float64(date.Year()))
			r.LeaveOut("%s, in %d", name, date.Year())
		}
		return r
	}
	r := make(at.AddDate(1, 0, 0), "3.7", "b")
	if err := r.Keep(make(at, "3.7", "a", "b")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range r.Workloads {
		got = append(got, fmt.Sprint(w.Name, w.Measures[0].Median, w.Apart.Year()))
	}
	if want := "[a2026 1 b2027 2027]"; fmt.Sprint(got) != want {
		t.Errorf("it has %v, want %v", got, want)
	}
	if want := "[b, in 2027 a, in 2026]"; fmt.Sprint(r.LeftOut) != want || !r.Date.Equal(at) {
		t.Errorf("it left out %v, of %v", r.LeftOut, r.Date)
	}
	if want := "[{etcd 3.7} {what a needs 1} {what b needs 1}]"; fmt.Sprint(r.Versions) != want {
		t.Errorf("it was with %v, want %v", r.Versions, want)
	}
	if err := make(at, "3.8", "b").Keep(make(at, "3.7", "a")); err == nil || !strings.Contains(err.Error(), `etcd: "3.7", and now "3.8"`) {
		t.Errorf("other versions: %v", err)
	}
	quick := make(at, "3.7", "b")
	quick.Quick = true
	if err := quick.Keep(make(at, "3.7", "a")); err == nil {
		t.Error("a quick run was put into a full one")
	}
}
