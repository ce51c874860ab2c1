package session

import (
	"cmp"
	"context"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Witness keeps a session that nothing depends on, for an observer that has none. On
// some brokers a session that is not renewed is ended only by other sessions in the
// same folder, so one must be left. Witness returns when ctx ends, or with the error of
// a broker that grants no session at all.
func Witness(ctx context.Context, b broker.Broker, config Config) error {
	timing := Derive(cmp.Or(config.TTL, TTLDefault))
	for {
		s, err := Open(ctx, b, config)
		switch {
		case err == nil:
			_ = s.Run(ctx) // another session follows, whatever the reason for the end
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.Try)
			_ = s.Close(closing) // if that fails, it expires
			cancel()
		case !broker.Temporary(err) && ctx.Err() == nil:
			return err
		}
		if !pause.For(ctx, timing.Renew) {
			return context.Cause(ctx)
		}
	}
}
