package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/shorten"
)

// Suspension is what an operator has stored, and holds until it is taken back: the cordon of a node, by its
// name, or the pause of a type.
type Suspension struct {
	At time.Time `json:"at"`
	// Reason is for people, and By is who made it (WithCaller).
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// String says since when and by whom, and why.
func (s *Suspension) String() string {
	text := "since " + s.At.Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// SuspensionReasonBytesMax is the maximum length of Suspension.Reason.
const SuspensionReasonBytesMax = 1024

// Cordon keeps a node, by its name, from getting tasks: also after a restart, and while it is away. It keeps
// the tasks that it has. The node need not be there, and the cordon that it has gets the new reason. Cordon
// returns whether the node is there.
func (c *Client) Cordon(ctx context.Context, node, reason string) (there bool, err error) {
	if err := checkReason(reason); err != nil {
		return false, err
	}
	return c.changeCordon(ctx, "cordon", node, suspend(ctx, c.space.NodeCordon(node), reason))
}

func checkReason(reason string) error {
	if len(reason) > SuspensionReasonBytesMax || !utf8.ValidString(reason) {
		return badInput("reason", shorten.To(reason, 80), fmt.Sprintf("must be valid UTF-8 of at most %d bytes", SuspensionReasonBytesMax))
	}
	return nil
}

// suspend writes a cordon, or the pause of a type.
func suspend(ctx context.Context, key, reason string) broker.Op {
	value, err := json.Marshal(Suspension{At: time.Now().UTC(), Reason: reason, By: callerOf(ctx)})
	if err != nil {
		value = nil // cannot be; it counts all the same
	}
	return broker.Put(key, value)
}

// Uncordon removes a cordon, and ends the drain of a node that is there. It returns
// ErrNotFound if there is no cordon.
func (c *Client) Uncordon(ctx context.Context, node string) error {
	_, err := c.changeCordon(ctx, "uncordon", node, broker.Delete(c.space.NodeCordon(node)))
	return err
}

// changeCordon writes or deletes a cordon.
func (c *Client) changeCordon(ctx context.Context, what, node string, op broker.Op) (there bool, err error) {
	if err := keys.CheckNodeName(node); err != nil {
		return false, err
	}
	info, err := c.change(ctx, op, c.space.NodeCordonAttempt(node), c.space.NodeInfo(node))
	if err != nil {
		return false, fmt.Errorf("%s node %q: cordon: %w", what, node, err)
	}
	return info != nil, nil
}

// Cordons returns the cordons of all nodes, by node, those that are away included.
func (c *Client) Cordons(ctx context.Context) (map[string]Suspension, error) {
	nodes, err := mirror.ListNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list cordons: %w", err)
	}
	cordons := map[string]Suspension{}
	for _, n := range nodes.Cordoned() {
		cordons[n.Name] = *cordonOf(n)
	}
	return cordons, nil
}

// cordonOf reads a node's cordon, nil if it has none. An unreadable one is a cordon.
func cordonOf(n *mirror.Node) *Suspension {
	if !n.Cordoned {
		return nil
	}
	return ParseSuspension(n.Cordon)
}

// ParseSuspension parses a stored cordon or pause. One that cannot be read says so as its reason.
func ParseSuspension(value []byte) *Suspension {
	var s Suspension
	if err := json.Unmarshal(value, &s); err != nil {
		s = Suspension{Reason: "unreadable: " + shorten.To(string(value), 80)}
	}
	return &s
}
