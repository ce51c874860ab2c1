package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Open connects to a cluster. It returns when a member has answered and knows a leader, or
// with an error that names the addresses, the time spent and the error of the last attempt.
// The client alone would connect in the background, and the caller's first request would
// hang.
func Open(ctx context.Context, config Config) (*Broker, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	address := strings.Join(config.Endpoints, ",")
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, config.DialTimeout)
	defer cancel()
	client, err := config.client(ctx)
	if err != nil {
		return nil, openError(ctx, address, start, err)
	}
	if err := probe(ctx, pb.NewMaintenanceClient(client.ActiveConnection())); err != nil {
		return nil, errors.Join(openError(ctx, address, start, err), client.Close())
	}
	return New(client, Options{RequestTimeout: config.RequestTimeout, Address: address, tls: config.TLS != nil}), nil
}

var errNoLeaderKnown = errors.New("the member that answered knows no leader")

// probe asks members for their status until one answers that it has a leader. The client's
// own function for that hides why a connection failed.
func probe(ctx context.Context, members pb.MaintenanceClient) error {
	for {
		answer, err := members.Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		if answer.Leader != 0 {
			return nil
		}
		if !pause.For(ctx, leaderPause) {
			return errNoLeaderKnown
		}
	}
}

func openError(ctx context.Context, address string, start time.Time, err error) error {
	if errors.Is(err, errNoLeaderKnown) {
		return broker.NewError("open", address, broker.ErrNoQuorum, err)
	}
	kind, _ := classify(err)
	if kind != broker.ErrUnavailable {
		return broker.NewError("open", address, kind, err)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return broker.NewError("open", address, kind, ctx.Err())
	}
	spent := time.Since(start).Round(time.Millisecond)
	return broker.NewError("open", address, kind, fmt.Errorf("tried for %v: %s", spent, status.Convert(err).Message()))
}
