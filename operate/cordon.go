package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/shorten"
)

// ReasonBytesMax is the maximum length of a reason.
const ReasonBytesMax = 1024

// Cordon keeps a node, by its name, from getting tasks: also after a restart, and while it is away. It keeps
// the tasks that it has. The node need not be there, and the cordon that it has gets the new reason. Cordon
// returns whether the node is there.
func (o *Operator) Cordon(ctx context.Context, node, reason string) (there bool, err error) {
	if err := checkReason(reason); err != nil {
		return false, err
	}
	return o.changeCordon(ctx, "cordon", node, suspend(ctx, o.space.NodeCordon(node), reason))
}

func checkReason(reason string) error {
	if len(reason) > ReasonBytesMax || !utf8.ValidString(reason) {
		return &windlass.BadInputError{
			Field: "reason", Value: shorten.To(reason, 80),
			Limit: fmt.Sprintf("must be valid UTF-8 of at most %d bytes", ReasonBytesMax),
		}
	}
	return nil
}

// Uncordon removes a cordon, and ends the drain of a node that is there. It returns
// windlass.ErrNotFound if there is no cordon.
func (o *Operator) Uncordon(ctx context.Context, node string) error {
	_, err := o.changeCordon(ctx, "uncordon", node, broker.Delete(o.space.NodeCordon(node)))
	return err
}

// changeCordon writes or deletes a cordon.
func (o *Operator) changeCordon(ctx context.Context, what, node string, op broker.Op) (there bool, err error) {
	if err := keys.CheckNodeName(node); err != nil {
		return false, err
	}
	info, err := o.change(ctx, op, o.space.NodeCordonAttempt(node), o.space.NodeInfo(node))
	if err != nil {
		return false, fmt.Errorf("%s node %q: cordon: %w", what, node, err)
	}
	return info != nil, nil
}

// Cordons returns the cordons of all nodes, by node, those that are away included.
func (o *Operator) Cordons(ctx context.Context) (map[string]windlass.Suspension, error) {
	nodes, err := mirror.ListNodes(ctx, o.broker, o.space)
	if err != nil {
		return nil, fmt.Errorf("list cordons: %w", err)
	}
	cordons := map[string]windlass.Suspension{}
	for _, n := range nodes.Cordoned() {
		cordons[n.Name] = *windlass.ParseSuspension(n.Cordon, true)
	}
	return cordons, nil
}

// suspend writes a cordon, or the pause of a type.
func suspend(ctx context.Context, key, reason string) broker.Op {
	value, err := json.Marshal(windlass.Suspension{At: time.Now().UTC(), Reason: reason, By: windlass.Caller(ctx)})
	if err != nil {
		value = nil // cannot be; it counts all the same
	}
	return broker.Put(key, value)
}
