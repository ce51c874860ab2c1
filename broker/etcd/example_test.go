package etcd_test

import (
	"context"

	"github.com/windlass-go/windlass/broker/etcd"
)

// connect is the example of the README.
func connect(ctx context.Context) (*etcd.Broker, error) {
	return etcd.Open(ctx, etcd.Config{Endpoints: []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"}})
}

var _ = connect
