package events

import (
	"time"

	"github.com/windlass-go/windlass/session"
)

// Node holds one function for each kind of event in a node; any may be nil. They are
// called from the node's goroutines and must not block.
type Node struct {
	// Joined: the node registered; timing has the derived deadlines of its session.
	Joined func(incarnation string, timing session.Timing)
	// Left: the incarnation ended; cause is nil after a graceful stop. abandoned lists
	// the tasks whose handlers had not returned.
	Left func(incarnation string, cause error, abandoned []string)
	// Waiting: the node cannot join yet and retries.
	Waiting func(cause error)
	// Granted: a claim was granted. It is reported once for each claim, before anything
	// is done with it.
	Granted func(Grant)
	// Claimed: a task is held and its handler is about to start. It is reported for
	// each start.
	Claimed func(task string, token int64)
	// Ended: a handler returned and the outcome was recorded, or a claim ended without
	// a handler or a record; see End.
	Ended func(End)
	// Errored: a handler failed. The task sleeps until the given time, or has failed
	// for good if that is zero. A panic or an invalid decision of an error handler is
	// also reported here, with a zero time.
	Errored func(task string, err error, until time.Time)
	// Fenced: the claim was no longer held, so a write was refused or a handler was
	// told to stop.
	Fenced func(task string, token int64, cause error)
	// Adopted: a claim whose outcome was unknown turned out to be granted.
	Adopted func(task string, token int64)
	// Commanded: a command to the node was carried out, or discarded with err.
	Commanded func(command string, err error)
	// TaskCommanded: a command to a task that this node holds was carried out, or
	// discarded with err.
	TaskCommanded func(task, message string, err error)
	// Corrupt: a value in the store could not be read. Only its own task or node is
	// affected.
	Corrupt func(key string, err error)
	// BrokerTrouble: a watch or a call to the broker failed. It is retried where that
	// may help.
	BrokerTrouble func(err error)
	// Braked: so many nodes vanished at about the same time that their tasks are taken
	// over only at this rate.
	Braked func(vanished, perSecond int)
	// Died: another node has vanished without notice, and its claims with it, or something has died
	// that ran the work of a node's tasks (Node.RecordDeath). It is told
	// again once it is known which task is to blame, as soon as the node is back. Every node
	// that is there reports it.
	Died func(Death)
	// BroughtBack: this node has made a task runnable again that had been set aside wrongly, as
	// another one explains the deaths. What its failure skipped stays ended.
	BroughtBack func(task, culprit string)
	// TypePaused: a type was paused, or resumed; this node holds so many of its tasks.
	TypePaused func(taskType string, paused bool, tasks int)
	// Balanced: tasks are released for other nodes to take.
	Balanced func(trigger Trigger, released int)
}

// Whole returns n with a function that does nothing in place of each that is nil.
func (n Node) Whole() Node {
	if n.Joined == nil {
		n.Joined = func(string, session.Timing) {}
	}
	if n.Left == nil {
		n.Left = func(string, error, []string) {}
	}
	if n.Waiting == nil {
		n.Waiting = func(error) {}
	}
	if n.Granted == nil {
		n.Granted = func(Grant) {}
	}
	if n.Claimed == nil {
		n.Claimed = func(string, int64) {}
	}
	if n.Ended == nil {
		n.Ended = func(End) {}
	}
	if n.Errored == nil {
		n.Errored = func(string, error, time.Time) {}
	}
	if n.Fenced == nil {
		n.Fenced = func(string, int64, error) {}
	}
	if n.Adopted == nil {
		n.Adopted = func(string, int64) {}
	}
	if n.Commanded == nil {
		n.Commanded = func(string, error) {}
	}
	if n.TaskCommanded == nil {
		n.TaskCommanded = func(string, string, error) {}
	}
	if n.Corrupt == nil {
		n.Corrupt = func(string, error) {}
	}
	if n.BrokerTrouble == nil {
		n.BrokerTrouble = func(error) {}
	}
	if n.Braked == nil {
		n.Braked = func(int, int) {}
	}
	if n.Died == nil {
		n.Died = func(Death) {}
	}
	if n.BroughtBack == nil {
		n.BroughtBack = func(string, string) {}
	}
	if n.TypePaused == nil {
		n.TypePaused = func(string, bool, int) {}
	}
	if n.Balanced == nil {
		n.Balanced = func(Trigger, int) {}
	}
	return n
}
