package layout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Read returns the version of a namespace's layout, zero if it has none. A version above Version
// is returned with an *Error.
func Read(ctx context.Context, b broker.Broker, space keys.Space) (version int, err error) {
	kv, err := b.Get(ctx, space.Layout())
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the layout: %w", err)
	}
	if version, err = Parse(kv.Value); err != nil {
		return 0, &unreadable{err}
	}
	return version, Check(space.Root(), version)
}

// unreadable marks the error of a layout value that cannot be read. It must not
// stop a node or a client: otherwise a damaged key would be an outage.
type unreadable struct{ error }

// Unwrap returns the cause.
func (e *unreadable) Unwrap() error { return e.error }

// readEvery is the shortest time after which a client that writes reads the
// layout again.
const readEvery = time.Minute

// Guard keeps a client from writing into a namespace whose layout is newer than this version supports.
type Guard struct {
	// read is when the layout was last read and found to be supported.
	read atomic.Pointer[time.Time]
}

// Check returns an error if the layout is newer than this version supports. The
// result is used for a while, so that a client that writes all the time needs no extra
// round trip for each batch. A change of the layout during that time is not detected:
// nodes must be stopped for it anyway.
func (g *Guard) Check(ctx context.Context, b broker.Broker, space keys.Space) error {
	if last := g.read.Load(); last != nil && time.Since(*last) < readEvery {
		return nil
	}
	now := time.Now()
	_, err := Read(ctx, b, space)
	if _, damaged := errors.AsType[*unreadable](err); err != nil && !damaged {
		return err
	}
	g.read.Store(&now)
	return nil
}
