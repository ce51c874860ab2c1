package events

// Trigger is the reason for balancing.
type Trigger uint8

// The triggers.
const (
	// TriggerMembership: a node joined, left, froze or drained.
	TriggerMembership Trigger = iota + 1
	// TriggerCommand: a command asked for it.
	TriggerCommand
	// TriggerDrift: tasks came or went a while ago. Running then lists only tasks that
	// have been running for a while.
	TriggerDrift
	// TriggerSettling: nodes joined or left a few seconds ago, and every node has
	// balanced since. Running then lists only tasks that have been running for a
	// moment.
	TriggerSettling
	// TriggerReview: nothing changed, but a review is due; see windlass.Reviewer.
	TriggerReview
)

// String returns the name of the trigger.
func (t Trigger) String() string {
	switch t {
	case TriggerMembership:
		return "membership"
	case TriggerCommand:
		return "command"
	case TriggerDrift:
		return "drift"
	case TriggerSettling:
		return "settling"
	case TriggerReview:
		return "review"
	}
	return "unknown"
}
