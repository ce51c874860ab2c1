package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Bounds of a copy.
const (
	// copyTxnsMax is how many keys are written at once.
	copyTxnsMax = 256
	// copyPassesMax is how often the source is looked at before a copy is called
	// behind: each pass copies what has changed since the one before.
	copyPassesMax = 20
	// copyTriesMax is how often a write is repeated whose outcome is unknown.
	copyTriesMax = 5
)

var (
	errCopyNotEmpty = errors.New("the destination holds something already")
	errCopyBehind   = errors.New("the source changes faster than it is copied")
	errCopyDiffers  = errors.New("the namespaces differ")
)

// copier copies the namespace of one broker to another.
type copier struct {
	from, to broker.Broker
	space    keys.Space
	// written are the revisions, at the source, of what the destination has.
	written map[string]broker.Revision
	// bar shows how far a pass has come; nil shows nothing.
	bar *progress
}

// notAsSource is the revision of what was at the destination before.
const notAsSource = 0

// isCopied tells whether a key lasts: it is not a session's, nor about nodes, nor a
// message to somebody who is there now.
func (c *copier) isCopied(kv broker.KV) bool {
	switch c.space.Parse(kv.Key).Kind {
	case keys.NodeInfo, keys.NodeCommand, keys.Owner, keys.Handover, keys.Claim, keys.TaskCommand, keys.Candidate:
		return false
	case keys.Unknown:
		return kv.Session == 0
	}
	return true
}

// list reads what of a namespace is copied.
func (c *copier) list(ctx context.Context, b broker.Broker) (map[string]broker.KV, error) {
	kvs, _, err := broker.Collect(ctx, b, c.space.All())
	if err != nil {
		return nil, err
	}
	found := map[string]broker.KV{}
	for _, kv := range kvs {
		if c.isCopied(kv) {
			found[kv.Key] = kv
		}
	}
	return found, nil
}

// copied is what a copy did. Its JSON is stable.
type copied struct {
	// Tasks and Keys are how many there are at the source.
	Tasks int `json:"tasks"`
	Keys  int `json:"keys"`
	// Written and Deleted count the writes to the destination, Passes the looks at
	// the source.
	Written int `json:"written"`
	Deleted int `json:"deleted"`
	Passes  int `json:"passes"`
}

// run copies until a look at the source finds nothing that was not copied. With replace
// what only the destination has is deleted.
func (c *copier) run(ctx context.Context, replace bool) (copied, error) {
	var done copied
	there, err := c.list(ctx, c.to)
	if err != nil {
		return done, fmt.Errorf("--to: %w", err)
	}
	if len(there) > 0 && !replace {
		return done, fmt.Errorf("%w: %d keys below %s; --replace makes them what the source has", errCopyNotEmpty, len(there), c.space.All())
	}
	c.written = map[string]broker.Revision{}
	for key := range there {
		c.written[key] = notAsSource
	}
	for done.Passes < copyPassesMax {
		changes, err := c.pass(ctx, &done)
		if err != nil || changes == 0 {
			return done, err
		}
	}
	return done, fmt.Errorf("%w: it still did after %d passes; stop its nodes, and copy again with --replace", errCopyBehind, done.Passes)
}

// pass copies what has changed since the last one.
func (c *copier) pass(ctx context.Context, done *copied) (changes int, err error) {
	source, err := c.list(ctx, c.from)
	if err != nil {
		return 0, fmt.Errorf("--from: %w", err)
	}
	done.Passes++
	done.Keys, done.Tasks = len(source), 0
	var puts []broker.KV
	for key, kv := range source {
		if c.space.Parse(key).Kind == keys.Task {
			done.Tasks++
		}
		if c.written[key] != kv.Modified {
			puts = append(puts, kv)
		}
	}
	// In the order in which they came into being, as far as a batch keeps it: that is
	// the order in which tasks of the same priority are taken.
	slices.SortFunc(puts, func(a, b broker.KV) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
	})
	var txns []broker.Txn
	for _, kv := range puts {
		txns = append(txns, broker.Txn{Then: []broker.Op{broker.Put(kv.Key, kv.Value)}})
		c.written[kv.Key] = kv.Modified
	}
	for key := range c.written {
		if _, there := source[key]; !there {
			txns = append(txns, broker.Txn{Then: []broker.Op{broker.Delete(key)}})
			delete(c.written, key)
			done.Deleted++
		}
	}
	done.Written += len(puts)
	c.bar.next(fmt.Sprintf("copying, pass %d", done.Passes), len(txns))
	written := 0
	for some := range slices.Chunk(txns, copyTxnsMax) {
		if err := c.write(ctx, some); err != nil {
			return 0, fmt.Errorf("--to: %w", err)
		}
		written += len(some)
		c.bar.set(written)
	}
	return len(txns), nil
}

// write commits transactions that may be repeated.
func (c *copier) write(ctx context.Context, txns []broker.Txn) error {
	for try := 1; len(txns) > 0; try++ {
		var again []broker.Txn
		for i, r := range c.to.Commit(ctx, txns...) {
			switch {
			case r.Err == nil:
			case broker.Temporary(r.Err) && ctx.Err() == nil && try < copyTriesMax:
				again = append(again, txns[i])
			default:
				return r.Err
			}
		}
		txns = again
	}
	return nil
}

// difference is a key that is not the same on both brokers. Its JSON is stable.
type difference struct {
	Key string `json:"key"`
	// Is is "missing" or "extra", at the destination, or "other" for another value.
	Is string `json:"is"`
}

// compare lists what differs.
func (c *copier) compare(ctx context.Context) ([]difference, error) {
	source, err := c.list(ctx, c.from)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	there, err := c.list(ctx, c.to)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	all := []difference{}
	for key, kv := range source {
		copy, ok := there[key]
		switch {
		case !ok:
			all = append(all, difference{key, "missing"})
		case !bytes.Equal(copy.Value, kv.Value):
			all = append(all, difference{key, "other"})
		}
	}
	for key := range there {
		if _, ok := source[key]; !ok {
			all = append(all, difference{key, "extra"})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}
