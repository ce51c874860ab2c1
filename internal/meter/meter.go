// Package meter carries to a caller how far a long call has come, within the context of
// the call, so that functions with few callers who show it need no parameter for it.
package meter

import "context"

type key struct{}

// With returns a context whose calls pass to report how many of their parts are done. It is
// called by the goroutine of the call.
func With(ctx context.Context, report func(done int)) context.Context {
	return context.WithValue(ctx, key{}, report)
}

// Set passes on how many parts are done, to whoever wants to know.
func Set(ctx context.Context, done int) {
	if report, ok := ctx.Value(key{}).(func(done int)); ok {
		report(done)
	}
}
