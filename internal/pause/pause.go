// Package pause waits for a while, or for less if a context ends, and spaces attempts that
// fail.
package pause

import (
	"context"
	"math/rand/v2"
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

// Backoff pauses longer each time: about Min after the first failure, twice that after the
// next, and about Max at most. A random part keeps those who lost the broker together from
// coming back together.
type Backoff struct {
	Min, Max time.Duration

	next time.Duration
}

// Reset begins with Min again.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits, and tells whether it came to its end before ctx did.
func (b *Backoff) Pause(ctx context.Context) bool {
	d := min(max(b.next, b.Min), b.Max)
	b.next = 2 * d
	return For(ctx, d/2+rand.N(d))
}
