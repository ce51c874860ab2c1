package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/layout"
)

// LayoutVersion is the version of the layout of the store, docs/layout.md, that
// this version of Windlass reads and writes.
const LayoutVersion = layout.Version

// LayoutError says that a namespace's layout is of a version from the future. It
// is an ErrLayout.
type LayoutError = layout.Error

// Layout returns the version of the namespace's layout, zero if the namespace
// has none because no node ever joined it, or only such as did not write one. A
// version above LayoutVersion is returned with a *LayoutError.
func (c *Client) Layout(ctx context.Context) (version int, err error) {
	kv, err := c.broker.Get(ctx, c.space.Layout())
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the layout: %w", err)
	}
	if version, err = layout.Parse(kv.Value); err != nil {
		return 0, &unreadableLayout{err}
	}
	return version, layout.Check(c.space.Root(), version)
}

// Init makes the namespace, if there is none: it says there which version of the
// layout it has. Nodes do so, too; it changes nothing about one that is there.
func (c *Client) Init(ctx context.Context) error {
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, _, err := c.persist(ctx, broker.Txn{
		If: []broker.Cond{broker.Absent(c.space.Layout())}, Then: []broker.Op{broker.Put(c.space.Layout(), layout.Now())},
	})
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

// unreadableLayout marks the error of a value that says nothing. It must not stop
// anyone: a damaged key would then be an outage.
type unreadableLayout struct{ error }

// Unwrap makes the cause visible.
func (e *unreadableLayout) Unwrap() error { return e.error }

// checkLayout refuses to write into a layout from the future. What it read is
// good for a while, so that a client that writes all the time has no round trip
// more for each batch. That nobody changes the layout under a client's feet is
// not its business: nodes must be stopped for that anyway.
func (c *Client) checkLayout(ctx context.Context) error {
	if last := c.layoutRead.Load(); last != nil && time.Since(*last) < layoutReadEvery {
		return nil
	}
	now := time.Now()
	_, err := c.Layout(ctx)
	var unreadable *unreadableLayout
	if err != nil && !errors.As(err, &unreadable) {
		return err
	}
	c.layoutRead.Store(&now)
	return nil
}

// registration is the transaction that registers the node. It holds only for
// the layout that was read before, and creates it where there was none, so that
// no node ever joins a layout that it has not looked at.
func (in *incarnation) registration(known *broker.KV) broker.Txn {
	key, layoutKey := in.node.space.NodeInfo(in.config.Name), in.node.space.Layout()
	txn := broker.Txn{
		If: []broker.Cond{broker.Absent(key)},
		Then: []broker.Op{
			broker.PutSession(key, in.info.encode(), in.session.ID()),
			// Commands to an earlier node of this name are lost with it.
			broker.DeleteTree(in.node.space.NodeCommands(in.config.Name)),
		},
		Else: []broker.Op{broker.Read(key), broker.Read(layoutKey)},
	}
	if known != nil {
		txn.If = append(txn.If, broker.Modified(layoutKey, known.Modified))
		return txn
	}
	txn.If = append(txn.If, broker.Absent(layoutKey))
	txn.Then = append(txn.Then, broker.Put(layoutKey, layout.Now()))
	return txn
}

// acceptLayout decides whether to join a namespace. An unreadable value is
// reported and stops nobody.
func (in *incarnation) acceptLayout(found *broker.KV) error {
	if found == nil {
		return nil
	}
	version, err := layout.Parse(found.Value)
	if err != nil {
		in.events.Corrupt(found.Key, err)
		return nil
	}
	return layout.Check(in.node.space.Root(), version)
}

// sameRevision tells whether two readings of a key, nil where it did not exist,
// saw the same.
func sameRevision(a, b *broker.KV) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Modified == b.Modified
}
