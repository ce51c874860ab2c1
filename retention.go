package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// retentionStep applies the retention, if this node has one, from time to time.
func (in *incarnation) retentionStep(now time.Time) {
	if in.config.Retention == (Retention{}) || in.retaining || in.closing || in.lost || now.Before(in.retentionAt) {
		return
	}
	in.retaining = true
	in.background(func() func() {
		err := in.retain(in.alive)
		return func() {
			in.retaining, in.retentionAt = false, time.Now().Add(RetentionEvery)
			if err != nil {
				in.events.BrokerTrouble(fmt.Errorf("apply the retention: %w", err))
			}
		}
	})
}

// retain prunes if this node is the one that does: whoever is first, for as long
// as its session lasts.
func (in *incarnation) retain(ctx context.Context) error {
	key := in.node.space.Retention()
	r, err := broker.CommitOne(ctx, in.config.Broker, broker.Txn{
		If:   []broker.Cond{broker.Absent(key)},
		Then: []broker.Op{broker.PutSession(key, coordinator.OwnerValue(in.config.Name), in.session.ID())},
		Else: []broker.Op{broker.Read(key)},
	})
	if err != nil {
		return err
	}
	if !r.OK && (r.Reads[0] == nil || r.Reads[0].Session != in.session.ID()) {
		return nil // another node does
	}
	client, err := NewClient(in.config.Broker, in.config.Namespace)
	if err != nil {
		return err
	}
	if _, err = client.Prune(ctx, in.config.Retention, Filter{}, false); errors.Is(err, context.Canceled) {
		return nil // the node is stopping
	}
	return err
}
