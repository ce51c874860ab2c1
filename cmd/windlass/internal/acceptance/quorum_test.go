//go:build e2e && linux

package acceptance

import (
	"context"
	"time"
)

// quorum is the store of a soak: members, each a process of its own, of which more than
// half must be there.
type quorum interface {
	// kind is what it is, for people; address is what --broker takes.
	kind() string
	address() string
	size() int
	// start starts a member, or starts it again on its data.
	start(i int)
	kill(i int) time.Time
	// freeze stops a member in its tracks, thaw lets it go on.
	freeze(i int) time.Time
	thaw(i int) time.Time
	alive(i int) bool
	frozen(i int) bool
	// leader is -1 while those that should answer do not agree on one.
	leader() int
	// moveLeader makes another member the leader, or says why not.
	moveLeader(from, to int) error
	// output is the file with what a member prints.
	output(i int) string
	// follow begins to watch the keys below a prefix. The function that it returns
	// passes on what is written, or what is there after a gap, until ctx ends or it
	// cannot go on, which is an error.
	follow(ctx context.Context, prefix string) func(func([]put)) error
	// left lists the keys below a prefix, and the sessions that the store knows of in a way
	// of its own.
	left(ctx context.Context, prefix string) ([]string, error)
}

// answers tells whether a member should answer.
func answers(q quorum, i int) bool { return q.alive(i) && !q.frozen(i) }
