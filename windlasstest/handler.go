package windlasstest

import (
	"context"
	"errors"
	"sync"

	"github.com/windlass-go/windlass"
)

// errNoReturn is what a run has for an error when its handler never returned one.
var errNoReturn = errors.New("the handler panicked, or called runtime.Goexit")

// recorded makes handlers keep a record of their runs.
func (n *Node) recorded(handlers map[string]windlass.NewHandler) map[string]windlass.NewHandler {
	if handlers == nil {
		return nil // for NewNode to refuse
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

// recordedHandler is the application's handler with a record of its run.
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
	note := func(format string, args ...any) {
		if !n.Killed() { // what a process does after its end is nothing
			n.cluster.journal.note(claim.Node(), format, args...)
		}
	}
	note("runs %q with token %d", claim.ID(), claim.Token())
	told := sync.OnceFunc(func() { note("tells %q to stop (%v)", claim.ID(), context.Cause(ctx)) })
	defer context.AfterFunc(ctx, told)()
	err := errNoReturn
	defer func() { // also after a panic, which goes on to the node
		cause := context.Cause(ctx)
		n.cluster.records.ended(run, err, cause)
		if cause != nil {
			told() // its own turn may come only after this
		}
		note("ends %q with token %d (%v)", claim.ID(), claim.Token(), result(err, cause))
	}()
	err = h.plain.Run(ctx, claim)
	return err
}

// result is what a handler returned, in words.
func result(err, cause error) any {
	switch {
	case err != nil:
		return err
	case cause != nil:
		return "stopped"
	}
	return "done"
}
