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
// held, nil for none. It returns false for a task that has no history, as one that was never
// claimed: nobody would remove it.
func noted(history, owner *broker.KV, what string) (value []byte, ok bool) {
	if history == nil {
		return nil, false
	}
	h, err := statemachine.ParseHistory(history.Value)
	if err != nil {
		return nil, false // it stays as it is, for a person to repair
	}
	e := statemachine.HistoryEntry{At: time.Now().UTC(), Event: statemachine.EventCommand, Detail: what}
	if owner != nil {
		e.Token = int64(owner.Created)
	} else if n := len(h.Entries); n > 0 {
		e.Token = h.Entries[n-1].Token
	}
	h.Add(e)
	value, err = h.Encode()
	return value, err == nil
}

// noteUpdates writes into the histories of tasks who changed them, and what. Nothing depends
// on it: where it fails, the history lacks that.
func (c *Client) noteUpdates(ctx context.Context, submitted []*submitting) {
	by := callerOf(ctx)
	if by == "" {
		return
	}
	what := map[string]string{}
	for _, s := range submitted {
		if text := s.changed(); *s.effect == EffectUpdated && text != "" {
			what[s.ID] = "update, by " + by + ": " + text
		}
	}
	for round := 0; len(what) > 0 && round < noteRounds; round++ {
		c.noteOnce(ctx, what)
	}
}

// noteOnce makes one attempt at each history, and removes those that need none any more.
func (c *Client) noteOnce(ctx context.Context, what map[string]string) {
	var ids []string
	var reads, writes []broker.Txn
	for id := range what {
		ids = append(ids, id)
		reads = append(reads, broker.Txn{Then: []broker.Op{broker.Read(c.space.History(id)), broker.Read(c.space.Owner(id))}})
	}
	var written []string
	for i, r := range c.broker.Commit(ctx, reads...) {
		if r.Err == nil {
			if value, ok := noted(r.Reads[0], r.Reads[1], what[ids[i]]); ok {
				key := r.Reads[0].Key
				writes = append(writes, broker.Txn{If: []broker.Cond{broker.Modified(key, r.Reads[0].Modified)}, Then: []broker.Op{broker.Put(key, value)}})
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

// changed says what a submission has changed of a live task, empty if that is not known or
// nothing that was submitted.
func (s *submitting) changed() string {
	if s.updates == nil || s.before == nil || s.before[0] == nil {
		return ""
	}
	var props []byte
	if s.before[1] != nil {
		props = s.before[1].Value
	}
	var texts []string
	for _, change := range changes.Of(changes.Fields(s.before[0].Value, props), changes.Fields(s.spec, s.Props)) {
		for _, value := range []*json.RawMessage{&change.From, &change.To} {
			*value = json.RawMessage(shorten.To(string(*value), valueShownMax))
		}
		texts = append(texts, change.String())
	}
	slices.SortStableFunc(texts, func(a, b string) int { return len(a) - len(b) }) // a long one hides no other
	return strings.Join(texts, "; ")
}
