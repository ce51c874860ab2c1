package loadgen

// said is one line of JSON that a child process says on its standard output.
type said struct {
	// Ready is the data folder of a broker that has started.
	Ready string `json:"ready,omitempty"`
	// Joined is when a node joined, in nanoseconds of the wall clock. It comes
	// with an Answer: what the node needs without any task.
	Joined int64 `json:"joined,omitempty"`
	// Running is how many tasks a node runs, said when it has changed.
	Running *int `json:"running,omitempty"`
	// Events are part of what a node wrote down: the number of a task, and when
	// it started, or, negative, when it was told to stop.
	Events [][2]int64 `json:"events,omitempty"`
	// Answer ends the answer to a request.
	Answer *answer `json:"answer,omitempty"`
	// Failed says why the child cannot go on.
	Failed string `json:"failed,omitempty"`
}

// answer is what a child says about itself.
type answer struct {
	Usage
	// AsOf is up to when, by the wall clock, the events are complete.
	AsOf int64 `json:"as_of,omitempty"`
	// Running is how many tasks ran then.
	Running int `json:"running"`
	// Attempts are the claims that were attempted, Lost those that someone else
	// had made before.
	Attempts int64 `json:"attempts,omitempty"`
	Lost     int64 `json:"lost,omitempty"`
	// Requests are the calls of the broker, by method.
	Requests map[string]int64 `json:"requests,omitempty"`
}

// The requests that a child answers, one on a line of its standard input. The
// end of its input ends the child.
const (
	// askReport asks for the events since the last time and an answer.
	askReport = "report"
	// askCollected asks for the same after garbage was collected.
	askCollected = "report collected"
)

// eventsPerLine bounds the events in one line.
const eventsPerLine = 10_000
