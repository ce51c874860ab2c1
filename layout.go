package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// LayoutVersion is the version of the layout of the store, docs/layout.md, that
// this version of Windlass reads and writes.
const LayoutVersion = 1

// LayoutError says that a namespace's layout is of a version from the future. It
// is an ErrLayout.
type LayoutError struct {
	// Namespace is where, with its leading slash.
	Namespace string
	// Found is the version there, Known the newest that this program knows.
	Found, Known int
}

// Error implements error.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("namespace %s has layout version %d; this version of windlass knows layouts up to version %d",
		e.Namespace, e.Found, e.Known)
}

// Is makes it an ErrLayout.
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// layoutValue is the value of the layout key. Unknown fields are ignored.
type layoutValue struct {
	Version int `json:"version"`
}

// parseLayout reads the value of a layout key.
func parseLayout(value []byte) (version int, err error) {
	var v layoutValue
	if err := json.Unmarshal(value, &v); err != nil {
		return 0, fmt.Errorf("layout: %w", err)
	}
	if v.Version < 1 {
		return 0, fmt.Errorf("layout: version %d: it is at least 1", v.Version)
	}
	return v.Version, nil
}

// layoutNow is what this version writes where there is no layout key.
func layoutNow() []byte {
	value, err := json.Marshal(layoutValue{Version: LayoutVersion})
	if err != nil {
		return nil // cannot be: a struct of one number always marshals
	}
	return value
}

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
	if version, err = parseLayout(kv.Value); err != nil {
		return 0, &unreadableLayout{err}
	}
	return version, layoutKnown(c.space.Root(), version)
}

// Init makes the namespace, if there is none: it says there which version of the
// layout it has. Nodes do so, too; it changes nothing about one that is there.
func (c *Client) Init(ctx context.Context) error {
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, _, err := c.persist(ctx, broker.Txn{
		If: []broker.Cond{broker.Absent(c.space.Layout())}, Then: []broker.Op{broker.Put(c.space.Layout(), layoutNow())},
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

func layoutKnown(namespace string, version int) error {
	if version > LayoutVersion {
		return &LayoutError{Namespace: namespace, Found: version, Known: LayoutVersion}
	}
	return nil
}

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
func (in *incarnation) registration(layout *broker.KV) broker.Txn {
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
	if layout != nil {
		txn.If = append(txn.If, broker.Modified(layoutKey, layout.Modified))
		return txn
	}
	txn.If = append(txn.If, broker.Absent(layoutKey))
	txn.Then = append(txn.Then, broker.Put(layoutKey, layoutNow()))
	return txn
}

// acceptLayout decides whether to join a namespace. An unreadable value is
// reported and stops nobody.
func (in *incarnation) acceptLayout(layout *broker.KV) error {
	if layout == nil {
		return nil
	}
	version, err := parseLayout(layout.Value)
	if err != nil {
		in.events.Corrupt(layout.Key, err)
		return nil
	}
	return layoutKnown(in.node.space.Root(), version)
}

// sameRevision tells whether two readings of a key, nil where it did not exist,
// saw the same.
func sameRevision(a, b *broker.KV) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Modified == b.Modified
}
