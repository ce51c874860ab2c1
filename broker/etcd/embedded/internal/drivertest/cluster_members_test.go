//go:build e2e

package drivertest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/broker/etcd"
)

// TestMembers_OfAClusterAreFoundFromOneOfThem kills one of three members, and
// then a second, after which nobody leads.
func TestMembers_OfAClusterAreFoundFromOneOfThem(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	leader, follower := c.leader(ctx)
	third := 3 - leader - follower
	config := etcd.Config{Endpoints: []string{c.members[leader].config.Client}, DialTimeout: patience}
	b, err := etcd.Open(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if told := describe(ctx, t, b.Members); told != "leader follower follower" {
		t.Errorf("at first: %s", told)
	}
	mustCommit(t, b, put("/a"))
	if err := b.Reclaim(ctx); err != nil {
		t.Errorf("reclaim on three members: %v", err)
	}
	c.kill(third)
	if told := describe(ctx, t, b.Members); told != "dead leader follower" {
		t.Errorf("with one killed: %s", told)
	}
	if err := b.Reclaim(ctx); err != nil {
		t.Errorf("reclaim on two of three members: %v", err)
	}
	c.kill(follower)
	survey := func(ctx context.Context) ([]etcd.Member, error) { return etcd.Members(ctx, config) }
	for told := ""; told != "dead dead leaderless"; {
		// The survivor notices after an election timeout.
		if told = describe(ctx, t, survey); ctx.Err() != nil {
			t.Fatalf("with two killed: %s", told)
		}
	}
}

// describe returns the members' states, sorted.
func describe(ctx context.Context, t *testing.T, ask func(context.Context) ([]etcd.Member, error)) string {
	t.Helper()
	members, err := ask(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, m := range members {
		switch {
		case m.ID == 0 || m.Name == "":
			t.Errorf("nobody's: %+v", m)
		case m.Err != nil && strings.Contains(m.Err.Error(), "connection refused"):
			words = append(words, "dead")
		case m.Err != nil:
			t.Errorf("%+v", m)
		case m.Leader:
			words = append(words, "leader")
		case m.Leaderless:
			words = append(words, "leaderless")
		default:
			words = append(words, "follower")
		}
	}
	slices.SortFunc(words, func(a, b string) int {
		order := []string{"dead", "leader", "leaderless", "follower"}
		return slices.Index(order, a) - slices.Index(order, b)
	})
	return strings.Join(words, " ")
}
