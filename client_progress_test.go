package windlass_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

func TestProgress_AClientReadsWhatTheLastCheckpointSaved(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				for row := range 3 {
					if err := claim.Checkpoint(ctx, map[string]int{"row": row}); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		if p, err := c.client.Progress(t.Context(), "t"); p != nil || err != nil {
			t.Errorf("before there is any: %s, %v", p, err)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "t"}); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Second, "all three were saved", func() bool {
			p, err := c.client.Progress(t.Context(), "t")
			return err == nil && string(p) == `{"row":2}`
		})
	})
}

func TestProgress_WhatIsNotJSONIsAnError(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		put := broker.Txn{Then: []broker.Op{broker.Put("/test/progress/t", []byte("{"))}}
		if _, err := broker.CommitOne(t.Context(), c.store, put); err != nil {
			t.Fatal(err)
		}
		if p, err := c.client.Progress(t.Context(), "t"); err == nil {
			t.Errorf("it was read as %s", p)
		}
		var wrong *windlass.BadInputError
		if _, err := c.client.Progress(t.Context(), "a/b"); !errors.As(err, &wrong) {
			t.Errorf("of an ID that cannot be: %v", err)
		}
	})
}
