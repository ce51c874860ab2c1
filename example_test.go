package windlass_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
)

// A node that runs tasks of one type, and a client that submits one. In
// production the broker is etcd.Open's.
func Example() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(),
		Name:   "node-1",
		Handlers: map[string]windlass.NewHandler{
			"greet": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
				fmt.Printf("%s greets %s\n", c.Node(), c.Props())
				stop() // one greeting is enough for an example
				return nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	client, err := windlass.NewClient(store.Broker(), "")
	if err != nil {
		log.Fatal(err)
	}
	task := windlass.Submission{ID: "first", Spec: windlass.Spec{Type: "greet"}, Props: []byte(`"the world"`)}
	if err := client.Submit(ctx, task); err != nil {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: node-1 greets "the world"
}
