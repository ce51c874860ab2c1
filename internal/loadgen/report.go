package loadgen

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Report is what a run measured. Its JSON is stable.
type Report struct {
	Tasks   int      `json:"tasks"`
	Nodes   int      `json:"nodes"`
	Figures []Figure `json:"figures"`
	// Curves are what the plot shows.
	Curves []Curve `json:"-"`
}

// Figure is one thing that was measured.
type Figure struct {
	Phase string  `json:"phase"`
	Name  string  `json:"figure"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Raw is what the broker does at best, or what is due; RawLimit says which
	// of its limits that is. Ratio is the value's to it. They are absent where
	// there is nothing to compare with.
	Raw      *float64 `json:"raw"`
	RawLimit string   `json:"raw_limit,omitempty"`
	Ratio    *float64 `json:"ratio"`
}

// The phase of the broker's limits.
const phaseRaw = "raw"

// The units.
const (
	unitRate         = "/s"
	unitMilliseconds = "ms"
	unitSeconds      = "s"
	unitPercent      = "%"
	unitTasks        = "tasks"
	unitRequests     = "requests"
	unitKilobytes    = "kB"
)

// The limits that figures are compared with.
const (
	limitPuts   = "puts in bulk"
	limitClaims = "claims in bulk"
	limitPut    = "one put"
	limitMoves  = "moves due"
)

// figure adds one to the report.
func (b *bench) figure(phase, name string, value float64, unit string) *Figure {
	b.report.Figures = append(b.report.Figures, Figure{Phase: phase, Name: name, Value: value, Unit: unit})
	return &b.report.Figures[len(b.report.Figures)-1]
}

// against sets what a figure is compared with.
func (f *Figure) against(limit string, raw float64) {
	f.Raw, f.RawLimit = &raw, limit
	if raw != 0 {
		ratio := f.Value / raw
		f.Ratio = &ratio
	}
}

// times reports the median, the 99th percentile and the longest of some times.
func (b *bench) times(phase, name string, s spread) {
	b.figure(phase, name+", median", milliseconds(s.median()), unitMilliseconds)
	b.figure(phase, name+", p99", milliseconds(s.p99()), unitMilliseconds)
	b.figure(phase, name+", max", milliseconds(s.max()), unitMilliseconds)
}

func (b *bench) reportLimits() {
	l := b.limits
	b.figure(phaseRaw, "one put, median", milliseconds(l.put.median()), unitMilliseconds)
	b.figure(phaseRaw, "puts one after the other", l.putsPerSecond, unitRate)
	b.figure(phaseRaw, limitPuts, l.batchedPerSecond, unitRate)
	b.figure(phaseRaw, limitClaims, l.claimsPerSecond, unitRate)
	b.figure(phaseRaw, limitClaims+", slowest round", l.claimsLeast, unitRate)
	b.figure(phaseRaw, limitClaims+", fastest round", l.claimsMost, unitRate)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Text is the value with its unit, as people read it.
func (f Figure) Text() string {
	if f.Unit == unitRate {
		return number(f.Value) + f.Unit
	}
	return number(f.Value) + " " + f.Unit
}

// RawText is what the value is compared with, empty if it is with nothing.
func (f Figure) RawText() string {
	if f.Raw == nil {
		return ""
	}
	raw := f
	raw.Value = *f.Raw
	return raw.Text() + " " + f.RawLimit
}

// RatioText is the ratio, empty if there is none.
func (f Figure) RatioText() string {
	if f.Ratio == nil {
		return ""
	}
	return number(*f.Ratio)
}

// number has three significant digits, or all of a whole number, with commas.
func number(v float64) string {
	switch magnitude := math.Abs(v); {
	case v == math.Trunc(v), magnitude >= 100:
		return withCommas(int64(math.Round(v)))
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", v)
	case magnitude >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

func withCommas(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
