package windlasstest

import (
	"context"
	"errors"
	"sync"

	"github.com/windlass-go/windlass"
)

// errNoReturn is the error of a run whose handler did not return.
var errNoReturn = errors.New("the handler panicked, or called runtime.Goexit")

// recorded wraps handlers so that their runs are recorded.
func (n *Node) recorded(handlers map[string]windlass.NewHandler) map[string]windlass.NewHandler {
	if handlers == nil {
		return nil // which NewNode refuses
	}
	wrapped := make(map[string]windlass.NewHandler, len(handlers))
	for name, plain := range handlers {
		if plain == nil {
			wrapped[name] = nil // as above
			continue
		}
		wrapped[name] = func(task windlass.Task) windlass.Handler {
			return &recordedHandler{node: n, plain: plain(task)}
		}
	}
	return wrapped
}

// recordedHandler is an application's handler whose run is recorded.
type recordedHandler struct {
	node  *Node
	plain windlass.Handler
}

// Run implements windlass.Handler.
func (h *recordedHandler) Run(ctx context.Context, claim *windlass.Claim) error {
	n := h.node
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := n.cluster.records.began(n, claim, cancel)
	if run == nil {
		return ErrKilled
	}
	note := func(format string, args ...any) { n.note(claim.Node(), format, args...) }
	note("runs %q with token %d", claim.ID(), claim.Token())
	told := sync.OnceFunc(func() { note("tells %q to stop (%v)", claim.ID(), context.Cause(ctx)) })
	defer context.AfterFunc(ctx, told)()
	err := errNoReturn
	defer func() { // also after a panic, which the node handles
		cause := context.Cause(ctx)
		n.cluster.records.ended(run, err, cause)
		if cause != nil {
			told() // AfterFunc may run only later
		}
		note("ends %q with token %d (%v)", claim.ID(), claim.Token(), result(err, cause))
	}()
	err = h.plain.Run(ctx, claim)
	return err
}

// result describes what a handler returned.
func result(err, cause error) any {
	switch {
	case err != nil:
		return err
	case cause != nil:
		return "stopped"
	}
	return "done"
}
