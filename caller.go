package windlass

import (
	"context"
	"strings"

	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

type callerKey struct{}

// WithCaller returns a context in which somebody makes changes: a task names who submitted
// or changed it last, its history who sent it commands, changed, restarted or deleted it, and a
// cordon or the pause of a type who made it. The name is for people and proves nothing,
// since whoever may write to the broker can give any. Of one that is longer than
// statemachine.CommandByBytesMax bytes the beginning is kept.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, shorten.To(strings.ToValidUTF8(name, "\uFFFD"), statemachine.CommandByBytesMax-len("…")))
}

// callerOf returns who makes the changes of a context, empty if that is not known.
func callerOf(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}
