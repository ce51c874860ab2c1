package report

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/windlass-go/windlass/bench/internal/stats"
)

// Report is what a run measured. Its methods are safe for concurrent use; its
// fields are for when the run is over.
type Report struct {
	mu sync.Mutex

	// Date is when the run began, Took how long it was.
	Date time.Time     `json:"date"`
	Took time.Duration `json:"took_ns"`
	// Quick tells that it was a short one, with small numbers and few repetitions.
	Quick bool `json:"quick"`
	// Machine and Versions say where it was and with what.
	Machine  []Fact `json:"machine"`
	Versions []Fact `json:"versions"`
	// Workloads are in the order in which they were measured.
	Workloads []*Workload `json:"workloads"`
	// LeftOut says what was not measured, and why.
	LeftOut []string `json:"left_out"`
	// Checks are what the comparison is expected to show.
	Checks []Check `json:"checks"`
}

// Fact is a thing that is known of a machine or a program.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Workload is one kind of work, and what its sides needed for it.
type Workload struct {
	Name string `json:"name"`
	// Title and About explain it, in a line and in a paragraph.
	Title string `json:"title"`
	About string `json:"about"`
	// Apart is when it was measured where that was not with the others; see Keep.
	Apart time.Time `json:"apart,omitzero"`
	// Sides are what was compared, in the order of the table's columns.
	Sides []Side `json:"sides"`
	// Measures are in the order of the table's rows.
	Measures []*Measure `json:"measures"`
}

// Side is one of those that are compared.
type Side struct {
	Name string `json:"name"`
	// Settings are those that matter, first of all what is on disk when.
	Settings string `json:"settings"`
}

// Measure is one thing that was measured of one side.
type Measure struct {
	// Row names it in the table, Side the column.
	Row  string `json:"row"`
	Side string `json:"side"`
	Unit string `json:"unit"`
	// Detail keeps it out of the table.
	Detail bool `json:"detail,omitempty"`
	// Samples are what the repetitions gave, in the order of time.
	Samples []float64 `json:"samples"`
	stats.Summary
}

// Check is something that a comparison is expected to show.
type Check struct {
	// What is expected, in a sentence.
	What string `json:"what"`
	// Got is what there was, and Holds whether it is as expected.
	Got   string `json:"got"`
	Holds bool   `json:"holds"`
}

// The units.
const (
	PerSecond    = "/s"
	Milliseconds = "ms"
	Microseconds = "µs"
	Seconds      = "s"
	Kilobytes    = "kB"
	Times        = "×"
	Percent      = "%"
	Tasks        = "tasks"
	Requests     = "requests"
)

// Begin adds a workload without measures, or returns the one of that name.
func (r *Report) Begin(w Workload) *Workload {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, had := range r.Workloads {
		if had.Name == w.Name {
			return had
		}
	}
	r.Workloads = append(r.Workloads, &w)
	return r.Workloads[len(r.Workloads)-1]
}

// LeaveOut notes that something was not measured.
func (r *Report) LeaveOut(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.LeftOut = append(r.LeftOut, fmt.Sprintf(format, args...))
}

// Find is the measure of a row and a side, nil if there is none.
func (w *Workload) Find(row, side string) *Measure {
	for _, m := range w.Measures {
		if m.Row == row && m.Side == side {
			return m
		}
	}
	return nil
}

// Add adds samples to the measure of a row and a side.
func (w *Workload) Add(row, side, unit string, samples ...float64) *Measure {
	m := w.Find(row, side)
	if m == nil {
		m = &Measure{Row: row, Side: side, Unit: unit, Samples: []float64{}}
		w.Measures = append(w.Measures, m)
	}
	m.Samples = append(m.Samples, samples...)
	m.Summary = stats.Of(m.Samples)
	return m
}

// Workload is the one of a name, nil if it was not measured.
func (r *Report) Workload(name string) *Workload {
	for _, w := range r.Workloads {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// Write writes the JSON.
func (r *Report) Write(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// Read reads what Write has written.
func Read(in io.Reader) (*Report, error) {
	var r Report
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	for _, w := range r.Workloads {
		for _, m := range w.Measures {
			if got := stats.Of(m.Samples); got != m.Summary {
				return nil, fmt.Errorf("read the report: %s, %s of %s: the summary is %+v, of the samples it is %+v", w.Name, m.Row, m.Side, m.Summary, got)
			}
		}
	}
	return &r, nil
}
