package windlass_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
)

// A node that runs tasks of one type, and a client that submits one. In
// production the broker is the one that etcd.Open returns.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store := memory.New() // a store within the process; in production etcd or ZooKeeper
	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), // a connection of its own
		Name:   "node-1",       // one of its own for each replica; the host's name if left out
		Handlers: map[string]windlass.NewHandler{
			"poll": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
				fmt.Printf("%s polls %s every %s\n", c.Node(), c.ID(), c.Props())
				stop() // enough for an example
				<-ctx.Done()
				return nil // it was told to stop: the task goes on elsewhere
			}),
		},
	})
	client, clientErr := windlass.NewClient(store.Broker(), "")
	if err := errors.Join(err, clientErr); err != nil {
		log.Fatal(err)
	}
	task := windlass.Submission{ID: "device-7", Spec: windlass.Spec{Type: "poll"}, Props: []byte(`"10s"`)}
	if err := client.Submit(ctx, task); err != nil && !windlass.AlreadySubmitted(err) {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil { // until ctx ends: it stops its handlers and gives their tasks back
		log.Fatal(err)
	}
	// Output: node-1 polls device-7 every "10s"
}
