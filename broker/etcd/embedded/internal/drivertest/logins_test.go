package drivertest_test

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

// Each login costs the server some 50 ms of a processor and an entry in the log of all
// members, so watches and renewals must not log in each time.
func TestUserWithAPasswordLogsInSeldom(t *testing.T) {
	endpoint, b := openNode(t)
	session, err := b.Grant(t.Context(), "", broker.ProgressMax)
	if err != nil {
		t.Fatal(err)
	}
	rev := b.Commit(t.Context(), put("/windlass/ns/a"))[0].Revision

	before := logins(t)
	for range 5 {
		if _, err := b.KeepAlive(t.Context(), session.ID); err != nil {
			t.Fatal(err)
		}
		if err := watchOnce(t, b, rev); err != nil {
			t.Fatal(err)
		}
	}
	if n := logins(t) - before; n > 1 {
		t.Errorf("5 watches and 5 renewals logged in %d times", n)
	}

	// This invalidates all tokens of the user, as a restart of the server does.
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Username: "root", Password: "root", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.UserChangePassword(t.Context(), "node", "secret"); err != nil {
		t.Fatal(err)
	}
	before = logins(t)
	if err := watchOnce(t, b, rev); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a watch with a token that has ended: %v", err)
	}
	for range 5 {
		if err := watchOnce(t, b, rev); err != nil {
			t.Fatal(err)
		}
	}
	if n := logins(t) - before; n != 1 {
		t.Errorf("6 watches after the end of the token logged in %d times", n)
	}
}

// watchOnce waits for the first batch.
func watchOnce(t *testing.T, b *etcd.Broker, from broker.Revision) (err error) {
	t.Helper()
	for _, err := range b.Watch(t.Context(), "/windlass/ns/", from) {
		return err
	}
	return nil
}

// logins counts the logins that the servers of this process have answered.
func logins(t *testing.T) (n int) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "grpc_server_handled_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "grpc_method" && label.GetValue() == "Authenticate" {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}
