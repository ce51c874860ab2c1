package windlasstest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass"
)

// ErrStale: the ledger has seen a higher token for that task.
var ErrStale = errors.New("the token is older than one that was seen")

// Entry is what a ledger stores for a task.
type Entry struct {
	// Token is the highest token seen, Writes the number of accepted writes.
	Token  int64
	Writes int
	// Value is the last value written, as JSON.
	Value json.RawMessage
}

// Ledger stands for a database outside of Windlass in which handlers keep their
// progress. It refuses the writes of old claims, like the statement
//
//	UPDATE progress SET value = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// Its methods are safe for concurrent use.
type Ledger struct {
	records *records
	journal *journal

	entries map[string]Entry // guarded by records.mu, as refused is
	refused int
}

// Write stores the JSON of a value for the claim's task. It fails with ErrStale if a
// later claim has written or read before, and with ErrKilled if the claim's node was
// killed, since a dead process could not have called it.
func (l *Ledger) Write(claim *windlass.Claim, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("ledger: value of %q: %w", claim.ID(), err)
	}
	return l.touch(claim, func(e *Entry) {
		e.Writes++
		e.Value = content
	})
}

// Read reads what was stored for the claim's task into a value, and reports whether
// there was anything. From then on writes of earlier claims are refused: a claim that
// reads in order to continue from there must not be overtaken.
func (l *Ledger) Read(claim *windlass.Claim, into any) (found bool, err error) {
	var content json.RawMessage
	if err := l.touch(claim, func(e *Entry) { content = e.Value }); err != nil || content == nil {
		return false, err
	}
	return true, json.Unmarshal(content, into)
}

// touch changes an entry in the name of a claim, unless a later one has.
func (l *Ledger) touch(claim *windlass.Claim, change func(*Entry)) error {
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	if l.records.isKilled(claim) {
		return fmt.Errorf("ledger: %q: %w", claim.ID(), ErrKilled)
	}
	e := l.entries[claim.ID()]
	if claim.Token() < e.Token {
		l.refused++
		l.journal.note(claim.Node(), "is refused by the ledger: %q with token %d after %d", claim.ID(), claim.Token(), e.Token)
		return fmt.Errorf("ledger: %q with token %d after %d: %w", claim.ID(), claim.Token(), e.Token, ErrStale)
	}
	e.Token = claim.Token()
	change(&e)
	l.entries[claim.ID()] = e
	return nil
}

// Entry returns what the ledger stores for a task.
func (l *Ledger) Entry(task string) Entry {
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	return l.entries[task]
}

// Refused returns how many writes and reads were refused as stale.
func (l *Ledger) Refused() int {
	l.records.mu.Lock()
	defer l.records.mu.Unlock()
	return l.refused
}
