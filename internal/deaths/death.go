// Package deaths finds the tasks whose runs end with the death of the process that runs
// them.
//
// When a node vanishes without notice, the others record it as a death, with the claims
// that ended with it. A Watcher finds out which those are. A Book has the records of the
// last hour. It says who is to blame for a death, and when each of the other suspects is
// started again: the most suspected first and alone, the others one after the other, so
// that the next death has fewer suspects.
package deaths

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

const (
	// Window is how long a death counts.
	Window = time.Hour
	// RecentFor is how long before a death a claim was granted that is suspected first.
	RecentFor = 10 * time.Second
	// unheardFor is after what time a node that has not come back counts as dead. Until
	// then it may only be cut off.
	unheardFor = 2 * time.Minute
	// CountDefault is how many deaths set a task aside unless its spec says otherwise.
	CountDefault = 3
	// CountMax is the most that a spec may say. Of one node as many deaths are kept, and keptMin of all
	// nodes together: two tasks that kill their nodes after a while, one or the other, are told from the
	// rest by some fifty deaths.
	CountMax = 8
	keptMin  = 64
	// lostMax and lostBytesMax limit the claims in a record.
	lostMax      = 256
	lostBytesMax = 16 << 10
)

// SetAside begins the error of a task that is to blame for deaths.
const SetAside = "set aside: the process that ran it died"

// Death is the record of a node that vanished without notice, or of a process that ran the work of
// its tasks, stored under nodes/<node>/deaths/<incarnation>. Its JSON is stable.
type Death struct {
	// Node is the name of the node, Incarnation its session. They are in the key. A process that
	// ran the work of tasks has an incarnation of its own.
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	// Process is what has died while the node went on, as "supervisor"; empty for the node.
	Process string `json:"process,omitempty"`
	// At is when another node saw that its session had ended, by that node's clock. The
	// process has died up to the TTL of the session earlier. Of a process whose node goes on, it is
	// when that node learned that it was dead.
	At time.Time `json:"at"`
	// Late is true if no other node was there when the process died: it may be dead for any time.
	Late bool `json:"late,omitempty"`
	// Claims is how many claims it held, without those of tasks that turned out not to have run.
	// Lost lists the latest of them, the latest first; the first Recent of these were granted
	// within RecentFor before the death.
	Claims int    `json:"claims"`
	Lost   []Lost `json:"lost,omitempty"`
	Recent int    `json:"recent,omitempty"`
	// Restarted is true once the node is back as another process. One that is back as the
	// same process was only cut off, and removes the record.
	Restarted bool `json:"restarted,omitempty"`
	// Culprit is the task that is to blame for this death and for the earlier ones that
	// list it, Count of them; empty if that is not known.
	Culprit string `json:"culprit,omitempty"`
	Count   int    `json:"count,omitempty"`
	// Limit is how many deaths set the culprit aside, by its spec.
	Limit int `json:"limit,omitempty"`
	// modified is the revision of the record as it was read, zero for one that was not.
	modified broker.Revision
}

// Lost is a claim that ended with its node.
type Lost struct {
	Task string `json:"task"`
	// Token is the fencing token of the claim.
	Token broker.Revision `json:"token"`
}

// ProcessDied returns the record of the death of a process that ran the work of claims, while its node
// goes on; recent reports whether one was granted shortly before.
func ProcessDied(node, process string, lost []Lost, recent func(Lost) bool, now time.Time) Death {
	d := Death{Node: node, Incarnation: rand.Text(), Process: process, At: now.UTC(), Restarted: true}
	d.list(lost, recent)
	return d
}

// Followed returns the record of a death as the process has it that follows a dead one under its name: of
// what that held once, and later than it died.
func Followed(node, incarnation string, held []Lost, recent func(Lost) bool, now time.Time) Death {
	d := Death{Node: node, Incarnation: incarnation, At: now.UTC(), Late: true}
	d.list(held, recent)
	return d
}

// What says what has died.
func (d *Death) What() string { return cmp.Or(d.Process, "node") }

// Outdated returns the deaths of a node that are not kept once another is recorded, of all deaths, the
// latest first. Those with a task to blame are kept beside the others: where more nodes die, it may turn
// out that it was another one.
func Outdated(all []Death, node string) (old []Death) {
	if len(all) < keptMin {
		return nil
	}
	explained, others := 0, 1
	for _, d := range all {
		if d.Node != node {
			continue
		}
		n := &others
		if d.Culprit != "" {
			n = &explained
		}
		if *n++; *n > CountMax {
			old = append(old, d)
		}
	}
	return old
}

// Parse parses the record of a death. It returns false for a value that is none.
func Parse(node, incarnation string, kv broker.KV) (d Death, ok bool) {
	if json.Unmarshal(kv.Value, &d) != nil || d.At.IsZero() {
		return d, false
	}
	d.Node, d.Incarnation, d.modified = node, incarnation, kv.Modified
	d.Recent = min(max(d.Recent, 0), len(d.Lost))
	return d, true
}

// Encode returns the value to store.
func (d *Death) Encode() []byte {
	value, err := json.Marshal(d)
	if err != nil {
		return nil // cannot be: texts, numbers and times
	}
	return value
}

// Rewrite returns the transaction that changes the record, which has a key, if it still is as it
// was read. If not, whoever finds it wrong changes what it is then.
func (d *Death) Rewrite(key string) broker.Txn {
	return broker.Txn{If: []broker.Cond{broker.Modified(key, d.modified)}, Then: []broker.Op{broker.Put(key, d.Encode())}}
}

// Acquit removes the claims of tasks that did not run.
func (d *Death) Acquit(innocent func(Lost) bool) {
	var kept []Lost
	recent := 0
	for i, l := range d.Lost {
		if innocent(l) {
			d.Claims--
			continue
		}
		if kept = append(kept, l); i < d.Recent {
			recent++
		}
	}
	if d.Lost, d.Recent = kept, recent; d.find(d.Culprit) == nil {
		d.clear()
	}
}

// clear leaves the death without a task to blame.
func (d *Death) clear() { d.Culprit, d.Count, d.Limit = "", 0, 0 }

// list records the claims that ended with the node; recent reports whether one was
// granted shortly before.
func (d *Death) list(lost []Lost, recent func(Lost) bool) {
	slices.SortFunc(lost, func(a, b Lost) int { return int(b.Token - a.Token) })
	d.Claims = len(lost)
	bytes := 0
	for _, l := range lost[:min(len(lost), lostMax)] {
		if bytes += len(l.Task) + 32; bytes > lostBytesMax {
			break
		}
		d.Lost = append(d.Lost, l)
		if recent(l) {
			d.Recent = len(d.Lost)
		}
	}
}

// Recorded returns the deaths that a copy has and that still count, the latest first.
func Recorded(nodes *mirror.Nodes) []Death {
	recorded := []Death{}
	nodes.Deaths(func(node, incarnation string, kv broker.KV) {
		if d, ok := Parse(node, incarnation, kv); ok && time.Since(d.At) < Window {
			recorded = append(recorded, d)
		}
	})
	slices.SortFunc(recorded, func(a, b Death) int { return b.At.Compare(a.At) })
	return recorded
}
