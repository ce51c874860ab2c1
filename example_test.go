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
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Name: "node-1",
		Handlers: map[string]windlass.NewHandler{"greet": windlass.HandlerFunc(
			func(ctx context.Context, c *windlass.Claim) error {
				defer stop() // one greeting is enough for an example
				_, err := fmt.Printf("%s greets %s\n", c.Node(), c.Props())
				return err
			})},
	})
	client, clientErr := windlass.NewClient(store.Broker(), "")
	if err := errors.Join(err, clientErr); err != nil {
		log.Fatal(err)
	}
	task := windlass.Submission{ID: "first", Spec: windlass.Spec{Type: "greet"}, Props: []byte(`"the world"`)}
	if err := errors.Join(client.Submit(ctx, task), node.Run(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output: node-1 greets "the world"
}
