package tree

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
)

// Progress is the progress of a forest's jobs. Its JSON is stable.
type Progress struct {
	// Total is the number of jobs, Counts the number of each status that occurs.
	Total  int                     `json:"total"`
	Counts map[windlass.Status]int `json:"counts"`
	// Done counts the jobs that are completed; those that failed or were killed are in
	// Counts. Percent is the share of Done in all, 0 if there are none.
	Done    int     `json:"done"`
	Percent float64 `json:"percent"`
	// BlockedForGood counts the jobs that cannot run because of a job or task that
	// failed or was killed, unless somebody resolves that.
	BlockedForGood int `json:"blocked_for_good"`
	// StartedAt is when the first job was claimed. FinishedAt is when the last one
	// ended, nil while any has not.
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	// Rate is how many jobs per second ended recently; 0 if it is not known.
	Rate float64 `json:"rate"`
	// Left estimates how long the jobs that can still run take at that rate; nil if it
	// cannot be estimated, 0 if none is left. In JSON it is left_seconds, a number.
	Left *time.Duration `json:"-"`
}

// plainProgress has the fields of Progress without its methods.
type plainProgress Progress

type progressJSON struct {
	plainProgress
	LeftSeconds *float64 `json:"left_seconds"`
}

// MarshalJSON encodes the time left in seconds.
func (p Progress) MarshalJSON() ([]byte, error) {
	out := progressJSON{plainProgress: plainProgress(p)}
	if p.Left != nil {
		seconds := p.Left.Seconds()
		out.LeftSeconds = &seconds
	}
	return json.Marshal(out)
}

// UnmarshalJSON parses the output of MarshalJSON.
func (p *Progress) UnmarshalJSON(data []byte) error {
	var in progressJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*p = Progress(in.plainProgress)
	if in.LeftSeconds != nil {
		p.Left = duration(*in.LeftSeconds)
	}
	return nil
}

// Limits of an estimate.
const (
	// windowMin is the number of latest endings that a rate is computed from; a tenth of all
	// if that is more.
	windowMin = 20
	// skewMax is how far ahead the clock of a node may be. A later ending counts as now, so
	// that one wrong clock does not make the rate vanish.
	skewMax = time.Minute
	// leftMax is the longest useful estimate.
	leftMax = 10 * 365 * 24 * time.Hour
)

// Progress sums up all jobs of the forest; use Subtree for a part.
func (f *Forest) Progress(now time.Time) Progress {
	p := Progress{Counts: map[windlass.Status]int{}}
	ended := 0 // successfully or not
	var endings []time.Time
	for i := f.from; i < f.to; i++ {
		n := &f.nodes[i]
		if !n.queued {
			continue
		}
		p.Total++
		p.Counts[n.job.Status]++
		if n.stuck {
			p.BlockedForGood++
		}
		if at := n.job.ClaimedAt; known(at) && (p.StartedAt == nil || at.Before(*p.StartedAt)) {
			p.StartedAt = at
		}
		if !n.job.Ended() {
			continue
		}
		if ended++; n.job.Completed() {
			p.Done++
		}
		if at := n.job.FinishedAt; known(at) {
			endings = append(endings, *at)
			if p.FinishedAt == nil || at.After(*p.FinishedAt) {
				p.FinishedAt = at
			}
		}
	}
	if ended < p.Total {
		p.FinishedAt = nil
	}
	if p.Total > 0 {
		p.Percent = 100 * float64(p.Done) / float64(p.Total)
	}
	p.Rate = rate(endings, now)
	p.Left = left(p.Total-ended-p.BlockedForGood, p.Rate)
	return p
}

func known(t *time.Time) bool { return t != nil && !t.IsZero() }

// rate returns how many of the latest jobs ended per second, 0 if it is not known. It is
// computed up to now, so that it falls while nothing ends, or up to the last ending if the
// clocks of the nodes are ahead of ours.
func rate(endings []time.Time, now time.Time) float64 {
	for i, at := range endings {
		if at.Sub(now) > skewMax {
			endings[i] = now
		}
	}
	slices.SortFunc(endings, time.Time.Compare)
	window := endings[max(0, len(endings)-max(windowMin, len(endings)/10)):]
	if len(window) < 2 {
		return 0
	}
	until := window[len(window)-1]
	if now.After(until) {
		until = now
	}
	took := until.Sub(window[0])
	if took <= 0 {
		return 0 // all ended just now; a moment later there is a rate
	}
	return float64(len(window)-1) / took.Seconds()
}

// left returns how long a number of jobs takes at a rate.
func left(jobs int, rate float64) *time.Duration {
	switch {
	case jobs <= 0:
		return new(time.Duration)
	case rate <= 0:
		return nil
	}
	return duration(float64(jobs) / rate)
}

// duration returns nil if the time is invalid or too long to be useful.
func duration(seconds float64) *time.Duration {
	if math.IsNaN(seconds) || seconds < 0 || seconds > leftMax.Seconds() {
		return nil
	}
	d := time.Duration(seconds * float64(time.Second))
	return &d
}
