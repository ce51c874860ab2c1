package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/statemachine"
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

// A handler that receives messages and says, by the message that it returns, what
// is to become of its task. Here the task is paused, and runs on when told to.
func ExampleStateful() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	listening := make(chan struct{})
	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Name: "node-1",
		Handlers: map[string]windlass.NewHandler{"watch": windlass.Stateful(
			func(ctx context.Context, c *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
				fmt.Println("it runs")
				listening <- struct{}{}
				select {
				case m := <-messages:
					fmt.Println("told to", m.Message)
					return m
				case <-ctx.Done(): // the node stops: another one goes on
					return statemachine.Command{Message: statemachine.Release}
				}
			})},
	})
	client, clientErr := windlass.NewClient(store.Broker(), "")
	if err := errors.Join(err, clientErr); err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()
	tell := func(m statemachine.Message) {
		sent, err := client.SendTask(ctx, "door", statemachine.Command{Message: m})
		if err == nil && m != statemachine.Run {
			var task windlass.TaskDetail
			task, err = client.AwaitCommand(ctx, sent)
			fmt.Println("it is", task.Status)
		}
		if err != nil {
			log.Fatal(err)
		}
	}

	if err := client.Submit(ctx, windlass.Submission{ID: "door", Spec: windlass.Spec{Type: "watch"}}); err != nil {
		log.Fatal(err)
	}
	<-listening
	tell(statemachine.Pause)
	tell(statemachine.Run)
	<-listening
	tell(statemachine.Complete)
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// it runs
	// told to pause
	// it is paused
	// it runs
	// told to complete
	// it is completed
}

// A handler that fails in the middle, and goes on where it was when it is run
// again, on whatever node.
func ExampleClaim_Checkpoint() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	fails := true
	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Name: "node-1",
		Handlers: map[string]windlass.NewHandler{"import": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
			var at struct {
				Page int `json:"page"`
			}
			saved, err := c.Progress(ctx) // nil at first
			if err != nil {
				return err
			}
			if saved != nil {
				if err := json.Unmarshal(saved, &at); err != nil {
					return err
				}
			}
			for at.Page < 4 {
				at.Page++
				fmt.Println("page", at.Page)
				if at.Page == 3 && fails {
					fails = false
					return errors.New("page 3 is not there yet")
				}
				if err := c.Checkpoint(ctx, at); err != nil { // stored when it returns
					return err
				}
			}
			stop() // enough for an example
			return nil
		})},
	})
	client, clientErr := windlass.NewClient(store.Broker(), "")
	if err := errors.Join(err, clientErr); err != nil {
		log.Fatal(err)
	}
	soon := &windlass.Retry{Max: windlass.Duration(10 * time.Millisecond)}
	task := windlass.Submission{ID: "book", Spec: windlass.Spec{Type: "import", Retry: soon}}
	if err := errors.Join(client.Submit(ctx, task), node.Run(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// page 1
	// page 2
	// page 3
	// page 3
	// page 4
}

// A handler that takes up new properties without a restart, and a client that changes
// them.
func ExampleClient_Update() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	listening, configured := make(chan struct{}), make(chan struct{})
	configure := func(props json.RawMessage) {
		fmt.Printf("now with %s\n", props)
		close(configured)
	}
	node, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Name: "node-1",
		Handlers: map[string]windlass.NewHandler{"poll": windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
			fmt.Printf("it runs with %s\n", claim.Props())
			claim.Updates() // from now on it listens
			close(listening)
			for updates := claim.Updates(); ; {
				select {
				case props := <-updates:
					configure(props) // claim.Props() has them, too
				case <-ctx.Done():
					return nil
				}
			}
		})},
	})
	client, clientErr := windlass.NewClient(store.Broker(), "")
	if err := errors.Join(err, clientErr); err != nil {
		log.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- node.Run(ctx) }()
	task := windlass.Submission{ID: "tenant-7", Spec: windlass.Spec{Type: "poll"}, Props: []byte(`{"rate":10}`)}
	if err := client.Submit(ctx, task); err != nil {
		log.Fatal(err)
	}
	<-listening
	_, err = client.Update(ctx, "tenant-7", func(s *windlass.Submission) error {
		s.Props = json.RawMessage(`{"rate":20}`)
		return nil
	})
	<-configured
	stop()
	if err := errors.Join(err, <-over); err != nil {
		log.Fatal(err)
	}
	// Output:
	// it runs with {"rate":10}
	// now with {"rate":20}
}
