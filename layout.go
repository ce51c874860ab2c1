package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/layout"
)

// LayoutVersion is the version of the store's layout, docs/reference/layout.md, that this
// version of Windlass reads and writes.
const LayoutVersion = layout.Version

// LayoutError reports that a namespace's layout is newer than this version supports. It
// matches ErrLayout.
type LayoutError = layout.Error

// Layout returns the version of the namespace's layout. It is zero if the namespace has
// none, because no node ever joined it, or only nodes that did not write one. A version
// above LayoutVersion is returned with a *LayoutError.
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

// Init creates the namespace if there is none, by writing its layout version. Nodes do
// so, too. It does not change an existing namespace.
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

// unreadableLayout marks the error of a layout value that cannot be read. It must not
// stop a node or a client: otherwise a damaged key would be an outage.
type unreadableLayout struct{ error }

// Unwrap returns the cause.
func (e *unreadableLayout) Unwrap() error { return e.error }

// checkLayout returns an error if the layout is newer than this version supports. The
// result is used for a while, so that a client that writes all the time needs no extra
// round trip for each batch. A change of the layout during that time is not detected:
// nodes must be stopped for it anyway.
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
