package edit

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/changes"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// valueShownMax limits what a history shows of a value that was changed, in bytes.
	valueShownMax = 60
	// noteRounds is how often a history is read again that a node writes at the same time.
	noteRounds = 4
)

// noted returns a history with a note. owner is the claim that is held, nil for none. It
// returns false for a live task that has no history, as one that was never claimed: nobody
// would remove it. What has ended has a history, which its node may not have written yet.
func noted(history, owner *broker.KV, note Note) (value []byte, ok bool) {
	if history == nil && note.Ended == 0 {
		return nil, false
	}
	var before []byte
	if history != nil {
		before = history.Value
	}
	h, err := statemachine.ParseHistory(before)
	if err != nil {
		return nil, false // it stays as it is, for a person to repair
	}
	e := statemachine.HistoryEntry{At: time.Now().UTC(), Event: statemachine.EventCommand, Detail: note.Text}
	switch n := len(h.Entries); {
	case note.Ended != 0:
		e.Token = note.Ended
	case owner != nil:
		e.Token = int64(owner.Created)
	case n > 0:
		e.Token = h.Entries[n-1].Token
	}
	h.Add(e)
	value, err = h.Encode()
	return value, err == nil
}

// noteUpdates writes into the histories of tasks who changed them, and what. Nothing depends
// on it: where it fails, the history lacks that.
func (b *Batch) noteUpdates(ctx context.Context, submitted []*Task) {
	if b.by == "" {
		return
	}
	what := map[string]Note{}
	for _, t := range submitted {
		if text, ended := t.changed(); text != "" {
			what[t.ID] = Note{t.verb() + ", by " + b.by + ": " + text, ended}
		}
	}
	AddNotes(ctx, b.broker, b.space, what)
}

// Note is what a history is to say of a change.
type Note struct {
	Text string
	// Ended is the token of the run after which the change was made, 0 for a change of a live task.
	Ended int64
}

// AddNotes writes notes into the histories of tasks, each of which may change meanwhile. It removes from what those that
// it has written, or that need none.
func AddNotes(ctx context.Context, b broker.Broker, space keys.Space, what map[string]Note) {
	for round := 0; len(what) > 0 && round < noteRounds; round++ {
		addOnce(ctx, b, space, what)
	}
}

// addOnce makes one attempt at each history.
func addOnce(ctx context.Context, b broker.Broker, space keys.Space, what map[string]Note) {
	var ids []string
	var reads, writes []broker.Txn
	for id := range what {
		ids = append(ids, id)
		reads = append(reads, broker.Txn{Then: []broker.Op{broker.Read(space.History(id)), broker.Read(space.Owner(id))}})
	}
	var written []string
	for i, r := range b.Commit(ctx, reads...) {
		if r.Err == nil {
			note, key := what[ids[i]], space.History(ids[i])
			if value, ok := noted(r.Reads[0], r.Reads[1], note); ok {
				unchanged := broker.Absent(key)
				if r.Reads[0] != nil {
					unchanged = broker.Modified(key, r.Reads[0].Modified)
				}
				writes = append(writes, broker.Txn{If: []broker.Cond{unchanged}, Then: []broker.Op{broker.Put(key, value)}})
				written = append(written, ids[i])
				continue
			}
		}
		delete(what, ids[i])
	}
	for i, r := range b.Commit(ctx, writes...) {
		if r.Err != nil || r.OK {
			delete(what, written[i])
		}
	}
}

// verb returns what a history calls a submission that changes a task.
func (t *Task) verb() string {
	switch {
	case t.Effect == Updated:
		return "update"
	case t.Ended == 0:
		return "rerun"
	case t.KeepProgress:
		return "continue"
	}
	return "retry"
}

// changed says what a submission has changed of the task that was there, live or ended. It
// is empty if that is not known, or nothing that was submitted. ended is the token of the last
// run of a task that had ended, 0 for others.
func (t *Task) changed() (text string, ended int64) {
	spec, props, ended := t.replaced()
	if spec == nil {
		return "", 0
	}
	var texts []string
	for _, change := range changes.Of(changes.Fields(spec, props), changes.Fields(t.spec, t.Props)) {
		for _, value := range []*json.RawMessage{&change.From, &change.To} {
			*value = json.RawMessage(shorten.To(string(*value), valueShownMax))
		}
		texts = append(texts, change.String())
	}
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) }) // a long one hides no other
	return strings.Join(texts, "; "), ended
}

// replaced returns the spec and the properties that a submission has replaced, nil if they
// are not known, and the token of the last run of a task that had ended. The values are those
// of the keys of replacedBy.
func (t *Task) replaced() (spec, props []byte, ended int64) {
	switch {
	case t.before == nil:
	case t.Effect == Updated && t.before[0] != nil:
		if t.before[1] != nil {
			props = t.before[1].Value
		}
		return t.before[0].Value, props, 0
	case t.Effect == Rerun && t.before[2] != nil:
		record, err := statemachine.Parse(t.before[2].Value)
		if err != nil {
			break
		}
		if spec, props, err = t.rules.Input(t.ID, record, t.before[5:]); err == nil {
			return spec, props, record.Token
		}
	}
	return nil, nil, 0
}
