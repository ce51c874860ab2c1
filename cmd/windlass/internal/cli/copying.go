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
	// copyTxnsMax bounds the keys that are written at once.
	copyTxnsMax = 256
	// copyPassesMax bounds the passes; each copies what has changed since the one before.
	copyPassesMax = 20
	// copyTriesMax bounds the attempts at a write whose outcome is unknown.
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
	// written are the revisions, at the source, of the keys of the destination.
	written map[string]broker.Revision
	// bar shows how far a pass has come.
	bar *progress
}

// notAsSource is the revision of keys that were at the destination before.
const notAsSource = 0

// isCopied reports whether a key is copied: not those of a session or a node, nor messages
// to one.
func (c *copier) isCopied(kv broker.KV) bool {
	switch c.space.Parse(kv.Key).Kind {
	case keys.NodeInfo, keys.NodeReturn, keys.NodeCommand, keys.NodeDeath, keys.Owner, keys.Handover, keys.Claim, keys.TaskCommand, keys.Candidate:
		return false
	case keys.Unknown:
		return kv.Session == 0
	}
	return true
}

// list reads the keys of a namespace that are copied.
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
	// Tasks and Keys count those at the source.
	Tasks int `json:"tasks"`
	Keys  int `json:"keys"`
	// Written and Deleted count the writes to the destination, Passes the reads of the
	// source.
	Written int `json:"written"`
	Deleted int `json:"deleted"`
	Passes  int `json:"passes"`
}

// run copies until the source has no changes that were not copied. With replace it deletes
// keys that only the destination has.
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
	// In the order of their creation, as far as a batch keeps it: tasks of the same
	// priority are taken in that order.
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

// difference is a key that differs between the brokers. Its JSON is stable.
type difference struct {
	Key string `json:"key"`
	// Is is "missing" or "extra", at the destination, or "other" for another value.
	Is string `json:"is"`
}

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
