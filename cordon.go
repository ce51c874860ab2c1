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

// Cordon keeps a node, by its name, from getting tasks: also after a restart, and while
// it is away. It keeps the tasks that it has.
type Cordon struct {
	At time.Time `json:"at"`
	// Reason is for people, and By is who cordoned it (WithCaller).
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// note says who made it and why, empty if that is not known or c is nil.
func (c *Cordon) note() string {
	switch {
	case c == nil || c.By == "" && c.Reason == "":
		return ""
	case c.Reason == "":
		return " (by " + c.By + ")"
	case c.By == "":
		return " (" + c.Reason + ")"
	}
	return " (by " + c.By + ": " + c.Reason + ")"
}

// CordonReasonBytesMax is the maximum length of Cordon.Reason.
const CordonReasonBytesMax = 1024

// Cordon cordons a node, which need not be there, or gives its cordon another reason. It
// returns whether the node is there.
func (c *Client) Cordon(ctx context.Context, node, reason string) (there bool, err error) {
	if err := checkReason(reason); err != nil {
		return false, err
	}
	return c.changeCordon(ctx, "cordon", node, putReason(ctx, c.space.NodeCordon(node), reason))
}

func checkReason(reason string) error {
	if len(reason) > CordonReasonBytesMax || !utf8.ValidString(reason) {
		return badInput("reason", shorten.To(reason, 80), fmt.Sprintf("must be valid UTF-8 of at most %d bytes", CordonReasonBytesMax))
	}
	return nil
}

// putReason writes a cordon, or the pause of a type.
func putReason(ctx context.Context, key, reason string) broker.Op {
	value, err := json.Marshal(Cordon{At: time.Now().UTC(), Reason: reason, By: callerOf(ctx)})
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
func (c *Client) Cordons(ctx context.Context) (map[string]Cordon, error) {
	nodes, err := listNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list cordons: %w", err)
	}
	cordons := map[string]Cordon{}
	for _, n := range nodes.Cordoned() {
		cordons[n.Name] = *cordonOf(n)
	}
	return cordons, nil
}

// cordonOf reads a node's cordon, nil if it has none. An unreadable one is a cordon.
func cordonOf(n *mirror.Node) *Cordon {
	if !n.Cordoned {
		return nil
	}
	return readReason(n.Cordon)
}

func readReason(value []byte) *Cordon {
	var c Cordon
	if err := json.Unmarshal(value, &c); err != nil {
		c = Cordon{Reason: "unreadable: " + shorten.To(string(value), 80)}
	}
	return &c
}
