// Package operate has what operators do to a fleet that runs: command nodes, keep them from getting tasks, pause types of
// tasks, see what has died, and create a namespace. Commands to tasks are windlass.Client.SendTasks.
package operate

import (
	"context"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Operator operates the fleet of a namespace. Its methods are safe for concurrent use. Broker errors are passed on as
// those of package broker. It writes nothing, and returns windlass.ErrLayout, if the layout is newer than this version
// supports.
type Operator struct {
	broker broker.Broker
	space  keys.Space
	layout layout.Guard
}

// New returns the operator of a client's namespace.
func New(client *windlass.Client) *Operator {
	space, _ := keys.New(client.Namespace()) // which the client has checked
	return &Operator{broker: client.Broker(), space: space}
}

// Layout returns the version of the namespace's layout. It is zero if the namespace has
// none, because no node ever joined it, or only nodes that did not write one. A version
// above windlass.LayoutVersion is returned with a *windlass.LayoutError.
func (o *Operator) Layout(ctx context.Context) (version int, err error) {
	return layout.Read(ctx, o.broker, o.space)
}

// Init creates the namespace if there is none, by writing its layout version. Nodes do
// so, too. It does not change an existing namespace.
func (o *Operator) Init(ctx context.Context) error {
	if err := o.layout.Check(ctx, o.broker, o.space); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, _, err := attempts.Commit(ctx, o.broker, broker.Txn{
		If: []broker.Cond{broker.Absent(o.space.Layout())}, Then: []broker.Op{broker.Put(o.space.Layout(), layout.Now())},
	})
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

// Deaths returns the deaths of nodes within the last hour, the latest first.
func (o *Operator) Deaths(ctx context.Context) ([]events.Death, error) {
	nodes, err := mirror.ListNodes(ctx, o.broker, o.space)
	if err != nil {
		return nil, fmt.Errorf("list the deaths of nodes: %w", err)
	}
	return deaths.Recorded(nodes), nil
}
