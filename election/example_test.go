package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/election"
)

// One process of several that could send the nightly report: the one that leads
// does, and notes that it did in the same store, on the condition that it still
// leads.
func Example() {
	store := memory.New()
	ctx, stop := context.WithCancel(context.Background())
	member, err := election.New(election.Config{Broker: store.Broker(), Namespace: "shop", Candidate: "host-1"})
	if err != nil {
		panic(err)
	}
	reports, err := member.Election("reports", election.Events{
		Error: func(err error) { fmt.Println("trouble, which is being dealt with:", err) },
	})
	if err != nil {
		panic(err)
	}
	if err := reports.Start(); err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := member.Run(ctx); err != nil {
			panic(err)
		}
	})
	err = reports.Lead(ctx, func(ctx context.Context, term election.Term) error {
		// Until ctx ends: then somebody else is about to lead.
		_, err := reports.Commit(ctx, term, broker.Txn{
			Then: []broker.Op{broker.Put("/shop-reports/last", []byte("2026-11-22"))},
		})
		if errors.Is(err, election.ErrNotLeader) {
			return err
		}
		fmt.Printf("%s has sent the report; its token is positive: %t\n", term.Candidate, term.Token > 0)
		return err // it has had enough: the next in the queue leads
	})
	fmt.Println("Lead:", err)
	stop()
	running.Wait()
	// Output:
	// host-1 has sent the report; its token is positive: true
	// Lead: <nil>
}

// inAService is what the guide to elections shows.
func inAService(ctx context.Context, store broker.Broker, hostname string, sendReports func(context.Context, int64) error) error {
	member, err := election.New(election.Config{Broker: store, Namespace: "shop", Candidate: hostname})
	if err != nil {
		return err
	}
	reports, err := member.Election("reports", election.Events{})
	if err != nil {
		return err
	}
	if err := reports.Start(); err != nil {
		return err
	}
	go func() {
		err := reports.Lead(ctx, func(ctx context.Context, term election.Term) error {
			return sendReports(ctx, term.Token) // until ctx ends; its cause says why
		})
		slog.Info("no longer a candidate", "error", err)
	}()
	return member.Run(ctx) // until ctx ends
}

// onANode is the other part of it.
func onANode(ctx context.Context, node *windlass.Node, sendReports func(context.Context, election.Term) error) error {
	reports, err := node.Election("reports", election.Events{})
	if err != nil {
		return err
	}
	if err := reports.Start(); err != nil {
		return err
	}
	go func() { slog.Info("no longer a candidate", "error", reports.Lead(ctx, sendReports)) }()
	return node.Run(ctx)
}

var _, _ = inAService, onANode
