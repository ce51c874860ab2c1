package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// settleDeath is how long after the end of a dead node its jobs may be left alone, in case one of
// them is to blame.
const settleDeath = 15 * time.Second

// awaitHolders waits until no node that may hold a job of a type is one that has died: a process
// that lives for less than a TTL would never see its jobs. It returns whether a node is gone since.
// The process has a session, and may be a node itself.
func awaitHolders(ctx context.Context, b broker.Broker, space keys.Space, jobType, itself string) (gone bool, err error) {
	before, err := holdersOf(ctx, b, space, jobType, itself)
	if err != nil || len(before) == 0 {
		return false, err
	}
	if err := session.AwaitRenewal(ctx, b, space.Sessions(), before...); err != nil {
		return false, fmt.Errorf("learn which nodes are alive: %w", err)
	}
	now, err := holdersOf(ctx, b, space, jobType, itself)
	return slices.ContainsFunc(before, func(id broker.SessionID) bool { return !slices.Contains(now, id) }), err
}

// holdersOf returns the sessions of the other nodes that run jobs of a type.
func holdersOf(ctx context.Context, b broker.Broker, space keys.Space, jobType, itself string) (holders []broker.SessionID, err error) {
	kvs, _, err := broker.Collect(ctx, b, space.Nodes())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, kv := range kvs {
		var info windlass.NodeInfo
		if p := space.Parse(kv.Key); p.Kind != keys.NodeInfo || p.Name == itself || json.Unmarshal(kv.Value, &info) != nil {
			continue
		}
		if runs := slices.Concat(info.Types, info.Pulls); slices.Contains(runs, jobType) || slices.Contains(runs, windlass.AnyType) {
			holders = append(holders, kv.Session)
		}
	}
	return holders, nil
}

// awaitHolders is awaitHolders for a process without a session, which has one meanwhile.
func (a *app) awaitHolders(ctx context.Context, jobType string) error {
	space, err := a.space()
	if err != nil {
		return err
	}
	return a.withBroker(ctx, func(b broker.Broker) error {
		if holders, err := holdersOf(ctx, b, space, jobType, ""); err != nil || len(holders) == 0 {
			return err // a session would be for nothing
		}
		s, release, err := session.Keep(ctx, b, session.Config{Folder: space.Sessions()})
		if err != nil {
			return fmt.Errorf("learn which nodes are alive: %w", err)
		}
		defer release()
		defer func() { _ = s.Close(context.WithoutCancel(ctx)) }() // it expires
		watching, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.Context(), func() { cancel(context.Cause(s.Context())) })() // or nobody ends the dead
		_, err = awaitHolders(watching, b, space, jobType, "")
		return err
	})
}
