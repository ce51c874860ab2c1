package windlass

import (
	"context"

	"github.com/windlass-go/windlass/internal/layout"
)

// LayoutVersion is the version of the store's layout, docs/reference/layout.md, that this
// version of Windlass reads and writes.
const LayoutVersion = layout.Version

// LayoutError reports that a namespace's layout is newer than this version supports. It
// matches ErrLayout.
type LayoutError = layout.Error

func (c *Client) checkLayout(ctx context.Context) error {
	return c.layout.Check(ctx, c.broker, c.space)
}
