package windlass

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/changes"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// valueShownMax limits what a history shows of a value that was changed, in bytes.
	valueShownMax = 60
	// noteRounds is how often a history is read again that a node writes at the same time.
	noteRounds = 4
)

// noted returns a history with what somebody did to its task. owner is the claim that is
// held, nil for none, and ended the token of the run after which it was done, 0 for a task
// that was live. It returns false for one that was live and has no history, as one that was
// never claimed: nobody would remove it. What has ended has a history, which its node may not
// have written yet.
func noted(history, owner *broker.KV, what string, ended int64) (value []byte, ok bool) {
	if history == nil && ended == 0 {
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
	e := statemachine.HistoryEntry{At: time.Now().UTC(), Event: statemachine.EventCommand, Detail: what}
	switch n := len(h.Entries); {
	case ended != 0:
		e.Token = ended
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
func (c *Client) noteUpdates(ctx context.Context, submitted []*submitting) {
	by := Caller(ctx)
	if by == "" {
		return
	}
	what := map[string]changeNote{}
	for _, s := range submitted {
		if text, ended := s.changed(); text != "" {
			what[s.ID] = changeNote{s.verb() + ", by " + by + ": " + text, ended}
		}
	}
	c.note(ctx, what)
}

// note writes notes into the histories of tasks, each of which may change meanwhile.
func (c *Client) note(ctx context.Context, what map[string]changeNote) {
	for round := 0; len(what) > 0 && round < noteRounds; round++ {
		c.noteOnce(ctx, what)
	}
}

// changeNote is what a history is to say of a change, and the token of the run after which it
// was made, 0 for a change of a live task.
type changeNote struct {
	text  string
	ended int64
}

// noteOnce makes one attempt at each history, and removes those that need none any more.
func (c *Client) noteOnce(ctx context.Context, what map[string]changeNote) {
	var ids []string
	var reads, writes []broker.Txn
	for id := range what {
		ids = append(ids, id)
		reads = append(reads, broker.Txn{Then: []broker.Op{broker.Read(c.space.History(id)), broker.Read(c.space.Owner(id))}})
	}
	var written []string
	for i, r := range c.broker.Commit(ctx, reads...) {
		if r.Err == nil {
			note, key := what[ids[i]], c.space.History(ids[i])
			if value, ok := noted(r.Reads[0], r.Reads[1], note.text, note.ended); ok {
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
	for i, r := range c.broker.Commit(ctx, writes...) {
		if r.Err != nil || r.OK {
			delete(what, written[i])
		}
	}
}

// verb returns what a history calls a submission that changes a task.
func (s *submitting) verb() string {
	switch {
	case *s.effect == EffectUpdated:
		return "update"
	case s.ended == 0:
		return "rerun"
	case s.keepProgress:
		return "continue"
	}
	return "retry"
}

// changed says what a submission has changed of the task that was there, live or ended. It
// is empty if that is not known, or nothing that was submitted. ended is the token of the last
// run of a task that had ended, 0 for others.
func (s *submitting) changed() (text string, ended int64) {
	spec, props, ended := s.replaced()
	if spec == nil {
		return "", 0
	}
	var texts []string
	for _, change := range changes.Of(changes.Fields(spec, props), changes.Fields(s.spec, s.Props)) {
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
func (s *submitting) replaced() (spec, props []byte, ended int64) {
	switch {
	case s.before == nil:
	case *s.effect == EffectUpdated && s.before[0] != nil:
		if s.before[1] != nil {
			props = s.before[1].Value
		}
		return s.before[0].Value, props, 0
	case *s.effect == EffectRerun && s.before[2] != nil:
		record, err := statemachine.Parse(s.before[2].Value)
		if err != nil {
			break
		}
		was, err := submittedAs(s.ID, record, s.before[5:])
		if err != nil {
			break
		}
		if spec, err = json.Marshal(was.Spec); err == nil {
			return spec, was.Props, record.Token
		}
	}
	return nil, nil, 0
}
