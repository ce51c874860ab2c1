package drivertest_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

// TestAUserWithARoleForItsNamespaceNeedsNoMore makes all calls of Windlass as a user who may
// read and write only below /windlass/ns/.
func TestAUserWithARoleForItsNamespaceNeedsNoMore(t *testing.T) {
	endpoint, b := openNode(t)
	if _, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Username: "node", Password: "wrong"}); !errors.Is(err, broker.ErrPermission) {
		t.Errorf("a wrong password: %v", err)
	}
	session, err := b.Grant(t.Context(), "", broker.ProgressMax)
	if err != nil {
		t.Fatal(err)
	}
	results := b.Commit(t.Context(),
		broker.Txn{Then: []broker.Op{broker.PutSession("/windlass/ns/a", nil, session.ID)}},
		put("/windlass/ns2/a"),
	)
	if results[0].Err != nil || !errors.Is(results[1].Err, broker.ErrPermission) || broker.MaybeApplied(results[1].Err) {
		t.Errorf("%+v", results)
	}
	if _, err := b.KeepAlive(t.Context(), session.ID); err != nil {
		t.Error(err)
	}
	for batch, err := range b.Watch(t.Context(), "/windlass/ns/", results[0].Revision) {
		if err != nil || len(batch.Events) != 1 {
			t.Errorf("%+v, %v", batch, err)
		}
		break
	}
	for _, err := range b.Watch(t.Context(), "/windlass/ns2/", 1) {
		if !errors.Is(err, broker.ErrPermission) {
			t.Errorf("%v", err)
		}
	}
	if err := b.Revoke(t.Context(), session.ID); err != nil {
		t.Error(err)
	}
	// It may see the members' status, but not change them.
	if members, err := b.Members(t.Context()); err != nil || len(members) != 1 || members[0].Err != nil || !members[0].Leader {
		t.Errorf("%+v, %v", members, err)
	}
	if err := b.Reclaim(t.Context()); !errors.Is(err, broker.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// openNode starts a server with access control, and connects as the user node.
func openNode(t *testing.T) (endpoint string, b *etcd.Broker) {
	t.Helper()
	config := fast()
	config.Dir, config.Socket = t.TempDir(), true
	endpoint = "unix://" + startServer(t, config).Socket()
	enableAccessControl(t, endpoint)
	b, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Username: "node", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, b.Close) })
	return endpoint, b
}

func enableAccessControl(t *testing.T, endpoint string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, prefix := t.Context(), "/windlass/ns/"
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserAdd(ctx, "node", "secret"); return err },
		func() error { _, err := client.RoleAdd(ctx, "node"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "node", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserGrantRole(ctx, "node", "node"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
