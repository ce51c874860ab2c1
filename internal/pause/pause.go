// Package pause waits for a while, or for less if a context ends.
package pause

import (
	"context"
	"time"
)

// For waits, and reports whether the context has outlived it.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
