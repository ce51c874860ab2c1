package life

import "github.com/windlass-go/windlass/statemachine"

// Return is what is known when a handler has returned.
type Return struct {
	// ClaimLost is set if the claim is gone, SessionLost if all claims of the node are.
	ClaimLost, SessionLost bool
	// Deleted is set if the task was deleted.
	Deleted bool
	// Killed is set if a command is to kill the task, Commanded if another is to be carried out of which the handler
	// was not told.
	Killed, Commanded bool
	// Rests is set if it was stopped because its type is paused, and the node keeps it.
	Rests bool
	// Expired is set if the time for the run was over.
	Expired bool
	// Stopped is set if it was told to stop, for any other cause.
	Stopped bool
	// HasSaid is set if it returned a message, Said.
	HasSaid bool
	Said    statemachine.Message
}

// Verdict is what becomes of a task whose handler has returned.
type Verdict uint8

// The verdicts.
const (
	// Drop: the task is held no more, for the cause with which it was stopped.
	Drop Verdict = iota
	// DropLost: the task is held no more, as the session has ended.
	DropLost
	// Abandon: the claim on a deleted task is given back.
	Abandon
	// Complete: the task is done for good.
	Complete
	// CarryOut: the command is carried out.
	CarryOut
	// Rest: the task stays, paused with its type.
	Rest
	// Heed: what the handler said is done.
	Heed
	// TimedOut: that the time was over is an error of the task.
	TimedOut
	// Release: the claim is given back, and others may have it first.
	Release
	// Fail: what it returned is an error of the task.
	Fail
	verdicts
)

var verdictNames = [verdicts]string{"drop", "drop: session lost", "abandon", "complete", "carry out", "rest", "heed", "timed out", "release", "fail"}

// String returns the name of the verdict.
func (v Verdict) String() string { return verdictNames[v] }

// rule is a reason for a verdict.
type rule struct {
	name    string
	verdict Verdict
	applies func(r Return) bool
}

// rules are asked in this order; the first that applies decides.
var rules = []rule{
	{"its claim is gone, and others of the node are not", Drop, func(r Return) bool { return r.ClaimLost && !r.SessionLost }},
	{"it was deleted, and the session is over", Drop, func(r Return) bool { return r.Deleted && r.SessionLost }},
	{"it was deleted", Abandon, func(r Return) bool { return r.Deleted }},
	{"it says that it is done, and no command kills it", Complete, func(r Return) bool { return r.HasSaid && r.Said == statemachine.Complete && !r.Killed }},
	{"the session is over", DropLost, func(r Return) bool { return r.SessionLost }},
	{"a command kills it, or was kept from it", CarryOut, func(r Return) bool { return r.Killed || r.Commanded }},
	{"its type is paused, and it says nothing else", Rest, func(r Return) bool { return r.Rests && !r.Expired && (!r.HasSaid || ChangesNothing(r.Said)) }},
	{"it says what is to become of it", Heed, func(r Return) bool { return r.HasSaid && !(r.Expired && r.Said == statemachine.Release) }},
	{"its time was over", TimedOut, func(r Return) bool { return r.Expired }},
	{"it was told to stop", Release, func(r Return) bool { return r.Stopped }},
	{"it returned by itself", Fail, func(Return) bool { return true }},
}

// Verdict returns what becomes of the task.
func (r Return) Verdict() Verdict {
	for _, rule := range rules {
		if rule.applies(r) {
			return rule.verdict
		}
	}
	return Fail // cannot be: the last rule applies to all
}

// ChangesNothing reports whether a message that a handler returns leaves its task as it
// is.
func ChangesNothing(m statemachine.Message) bool {
	return m == statemachine.Release || m == statemachine.Run || m == statemachine.Checkpoint
}
