package doctor_test

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/keys"
)

// TestPermissions_OfEtcdUsers asks as users of an etcd with
// access control: one with the role of docs/operate/security.md, one who may only read,
// and one with rights elsewhere.
func TestPermissions_OfEtcdUsers(t *testing.T) {
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Socket: true, UnsafeNoFsync: true, Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // after the connections; its error does not matter here
	endpoint := "unix://" + s.Socket()
	grantRoles(t, endpoint)
	space, err := keys.New("w")
	if err != nil {
		t.Fatal(err)
	}
	as := func(user string) broker.Broker {
		b, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}, Username: user, Password: "secret", DialTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	for user, want := range map[string][]string{
		"node": nil, "reader": {"may not write below /w/"},
		"stranger": {"may not read below /w/", "may not write below /w/"},
	} {
		c, err := (&doctor.Doctor{Broker: as(user), Space: space}).Permissions(t.Context())
		if err != nil || !slices.Equal(c.Details, want) || (c.Status == doctor.OK) != (want == nil) {
			t.Errorf("%s: %+v, %v", user, c, err)
		}
	}
	if kvs, _, err := broker.Collect(t.Context(), as("root"), "/w/"); err != nil || len(kvs) > 0 {
		t.Errorf("%+v, %v", kvs, err)
	}
}

func grantRoles(t *testing.T, endpoint string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() // nothing is under way
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.UserAdd(ctx, "root", "secret"))
	must(client.UserGrantRole(ctx, "root", "root"))
	const readWrite, read = clientv3.PermissionType(clientv3.PermReadWrite), clientv3.PermissionType(clientv3.PermRead)
	for user, right := range map[string]struct {
		prefix string
		kind   clientv3.PermissionType
	}{"node": {"/w/", readWrite}, "reader": {"/w/", read}, "stranger": {"/elsewhere/", readWrite}} {
		must(client.UserAdd(ctx, user, "secret"))
		must(client.RoleAdd(ctx, user))
		must(client.RoleGrantPermission(ctx, user, right.prefix, clientv3.GetPrefixRangeEnd(right.prefix), right.kind))
		must(client.UserGrantRole(ctx, user, user))
	}
	must(client.AuthEnable(ctx))
}
