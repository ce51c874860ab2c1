package session

import (
	"context"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Witness keeps a session that nothing depends on, for an observer that has none. On
// some brokers a session that is not renewed is ended only by other sessions in the
// same folder, so one must be left. Witness returns when ctx ends, or with the error of
// a broker that grants no session at all.
func Witness(ctx context.Context, b broker.Broker, config Config) error {
	timing := Derive(TTLDefault)
	if config.TTL > 0 {
		timing = Derive(config.TTL)
	}
	for {
		s, err := Open(ctx, b, config)
		switch {
		case err == nil:
			_ = s.Run(ctx) // it begins anew, whyever it ended
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.Try)
			_ = s.Close(closing) // or the others end it
			cancel()
		case !broker.Temporary(err) && ctx.Err() == nil:
			return err
		}
		if !pause.For(ctx, timing.Renew) {
			return context.Cause(ctx)
		}
	}
}
