// Package inspect says what a fleet does, and what it would do: why a task does not run or runs where it does
// ([Inspector.Explain]), what would move if the nodes changed ([Inspector.Plan]), where tasks would run that are about to
// be submitted ([Inspector.PlanSubmit]), what has failed, and what was done with a task. It changes nothing.
package inspect

import (
	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Inspector looks into a namespace. Its methods are safe for concurrent use. Broker errors are passed on as those of
// package broker.
type Inspector struct {
	broker broker.Broker
	space  keys.Space
	client *windlass.Client
}

// New returns the inspector of a client's namespace.
func New(client *windlass.Client) *Inspector {
	space, _ := keys.New(client.Namespace()) // which the client has checked
	return &Inspector{broker: client.Broker(), space: space, client: client}
}
