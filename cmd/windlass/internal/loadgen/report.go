package loadgen

import "time"

// Report has the figures of a run, nil for those not measured. Its JSON is stable.
type Report struct {
	Tasks int `json:"tasks"`
	Nodes int `json:"nodes"`
	// Raw is what the broker does at best.
	Raw     *Raw  `json:"raw"`
	Jobs    *Rate `json:"jobs_completed"`
	Started *Rate `json:"tasks_started"`
	Lost    *Loss `json:"node_lost"`
}

// Raw has the transactions of one client that the broker takes in a second.
type Raw struct {
	// Puts are one after the other, BulkPuts many in each call.
	Puts     float64 `json:"puts_per_second"`
	BulkPuts float64 `json:"bulk_puts_per_second"`
	// BulkClaims put an owner key on a session if the task exists and has none.
	BulkClaims float64 `json:"bulk_claims_per_second"`
}

// Rate is a rate per second with its ratios to those of Raw.
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
	// Expired is the time in seconds from its death until the others saw that its claims
	// had gone, Running from then until all of its tasks ran again.
	Expired float64 `json:"expired_after_seconds"`
	Running float64 `json:"running_again_after_seconds"`
}

// rate is the rate of n things in a time, with its ratios.
func (r *Raw) rate(n int, took time.Duration) *Rate {
	rate := perSecond(n, took)
	return &Rate{PerSecond: rate, OfPuts: rate / r.Puts, OfBulkPuts: rate / r.BulkPuts, OfBulkClaims: rate / r.BulkClaims}
}

// perSecond is a rate. It counts no time at all as a nanosecond, to be finite.
func perSecond(n int, took time.Duration) float64 {
	return float64(n) * float64(time.Second) / float64(max(took, time.Nanosecond))
}
