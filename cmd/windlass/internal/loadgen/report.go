package loadgen

import "time"

// Report is what a run measured. What was not measured is nil. Its JSON is stable.
type Report struct {
	Tasks int `json:"tasks"`
	Nodes int `json:"nodes"`
	// Raw is what the broker does at best.
	Raw *Raw `json:"raw"`
	// Jobs are completed, Started are tasks that come to run.
	Jobs    *Rate `json:"jobs_completed"`
	Started *Rate `json:"tasks_started"`
	// Lost is what the death of a node cost.
	Lost *Loss `json:"node_lost"`
}

// Raw is how many bare transactions of one client the broker takes in a second.
type Raw struct {
	// Puts are one after the other, BulkPuts many in each call.
	Puts     float64 `json:"puts_per_second"`
	BulkPuts float64 `json:"bulk_puts_per_second"`
	// BulkClaims put an owner key on a session if the task exists and has none.
	BulkClaims float64 `json:"bulk_claims_per_second"`
}

// Rate is a rate with its ratios to those of Raw.
type Rate struct {
	PerSecond    float64 `json:"per_second"`
	OfPuts       float64 `json:"of_puts"`
	OfBulkPuts   float64 `json:"of_bulk_puts"`
	OfBulkClaims float64 `json:"of_bulk_claims"`
}

// Loss is the death of a node.
type Loss struct {
	// Tasks ran on it.
	Tasks int `json:"tasks"`
	// Expired is when the others saw that its claims had gone, in seconds after its death;
	// Running is when all of its tasks ran again, in seconds after that.
	Expired float64 `json:"expired_after_seconds"`
	Running float64 `json:"running_again_after_seconds"`
}

// rate sets n things in a time beside the raw rates.
func (r *Raw) rate(n int, took time.Duration) *Rate {
	rate := perSecond(n, took)
	return &Rate{PerSecond: rate, OfPuts: rate / r.Puts, OfBulkPuts: rate / r.BulkPuts, OfBulkClaims: rate / r.BulkClaims}
}

// perSecond is a rate. No time at all counts as a nanosecond, so that it is a number.
func perSecond(n int, took time.Duration) float64 {
	return float64(n) * float64(time.Second) / float64(max(took, time.Nanosecond))
}
