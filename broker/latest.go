package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// LatestReader is a broker that finds the keys that were created last without
// listing all of them. Callers use the function Latest.
type LatestReader interface {
	// Latest is the function of this name.
	Latest(ctx context.Context, prefix string, upTo Revision, n int, atLeast Revision) ([]KV, Revision, error)
}

// LatestMax bounds how many keys Latest returns. It is for small values: all of
// them come in one answer.
const LatestMax = 1024

// Latest returns the keys below a prefix that were created at a revision of upTo
// or before, the latest first, n of them at most, and the revision at which they
// were read. Keys that one transaction created are in descending order of their
// bytes. n is LatestMax at most. Where n cuts through those, any of them are left out. A broker that has no
// shorter way is listed.
//
// With an atLeast above zero, the state of that revision or of any later one will do:
// a member of the store may answer from what it has at hand, without asking the others
// whether it is the newest. One that the store has not reached is as zero. That is for callers to whom time alone cannot take away
// what they look for, and who watch from the revision returned.
func Latest(ctx context.Context, b Broker, prefix string, upTo Revision, n int, atLeast Revision) ([]KV, Revision, error) {
	if err := CheckLatest(prefix, upTo, n, atLeast); err != nil {
		return nil, 0, err
	}
	if reader, ok := b.(LatestReader); ok {
		kvs, rev, err := reader.Latest(ctx, prefix, upTo, n, atLeast)
		slices.SortFunc(kvs, laterFirst)
		return kvs, rev, err
	}
	kvs, rev, err := Collect(ctx, b, prefix)
	if err != nil {
		return nil, 0, err
	}
	kvs = slices.DeleteFunc(kvs, func(kv KV) bool { return kv.Created > upTo })
	slices.SortFunc(kvs, laterFirst)
	return kvs[:min(n, len(kvs))], rev, nil
}

// CheckLatest checks the arguments of Latest.
func CheckLatest(prefix string, upTo Revision, n int, atLeast Revision) error {
	switch {
	case n < 1 || n > LatestMax:
		return NewError("latest", prefix, ErrInvalid, fmt.Errorf("n is %d; it is 1 to %d", n, LatestMax))
	case upTo < 1:
		return NewError("latest", prefix, ErrInvalid, fmt.Errorf("upTo is %d; the first revision is 1", upTo))
	case atLeast < 0:
		return NewError("latest", prefix, ErrInvalid, fmt.Errorf("atLeast is %d; it is a revision, or 0 for the newest", atLeast))
	}
	return CheckPrefix(prefix)
}

func laterFirst(a, b KV) int {
	return cmp.Or(-cmp.Compare(a.Created, b.Created), -cmp.Compare(a.Key, b.Key))
}
