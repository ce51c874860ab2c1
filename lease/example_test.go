package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/lease"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	defer store.Close()
	client, err := windlass.NewClient(store.Broker(), "/fleet")
	if err != nil {
		panic(err)
	}
	if err := client.Submit(ctx, windlass.Submission{ID: "film-7", Spec: windlass.Spec{Type: "convert"}, Props: json.RawMessage(`{"to":"webm"}`)}); err != nil {
		panic(err)
	}
	leases := lease.New(client, nil)
	task, err := leases.Dequeue(ctx, "convert", "script-1", time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s has %s, with %s\n", task.Owner, task.ID, task.Props)
	if _, err := leases.Dequeue(ctx, "convert", "script-2", time.Minute); errors.Is(err, windlass.ErrEmpty) {
		fmt.Println("there is no other")
	}
	// Another process may do this. It needs the ID and the token.
	if err := leases.Complete(ctx, task.ID, task.Token, json.RawMessage(`{"minutes":90}`)); err != nil {
		panic(err)
	}
	if err := leases.Release(ctx, task.ID, task.Token); errors.Is(err, windlass.ErrFenced) {
		fmt.Println("the claim is over")
	}
	// Output:
	// script-1 has film-7, with {"to":"webm"}
	// there is no other
	// the claim is over
}
