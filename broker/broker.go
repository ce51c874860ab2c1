package broker

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Revision numbers the changes of a store. It only ever rises. Zero is before the first
// change and is never assigned.
type Revision int64

// SessionID identifies a session of the store. Zero means no session.
type SessionID int64

// Broker is the interface between Windlass and a store. Its methods are safe for
// concurrent use. Every error of a broker is an *Error whose kind is one of the
// sentinels of this package. The end of a context is reported as ErrUnavailable with
// the context's error as its cause.
type Broker interface {
	// Get reads one key. It returns ErrNotFound if the key does not exist.
	Get(ctx context.Context, key string) (KV, error)

	// List yields the keys below prefix, which must end in a slash, in ascending byte
	// order. All pages are read at one revision. An empty prefix yields one empty page,
	// so that its revision is known. After an error nothing more is yielded;
	// ErrCompacted means that the snapshot was compacted while it was being paged, and
	// that the caller should list again.
	List(ctx context.Context, prefix string) iter.Seq2[Page, error]

	// Commit applies independent transactions in as few round trips as the store allows
	// and returns one result for each, in order. Transactions that share a key take
	// effect as if one after the other, in order; others may share a revision, or have
	// theirs in another order. A refused transaction does not stop the others. If the
	// outcome of one is unknown, later ones that share a key with it are not sent.
	Commit(ctx context.Context, txns ...Txn) []Result

	// Watch yields the changes of the keys below prefix, or of one key alone if it does
	// not end in a slash, from the given revision on (at least 1, that revision
	// included). Batches come in order, and their revisions never fall. A batch without
	// events is progress: every change up to its revision was delivered. Progress comes
	// at least every ProgressMax while the watch is healthy.
	//
	// A put with a long value may be left out if its key has changed again by the end
	// of the batch. A value is long if it exceeds WatchedValueBytes, or if the values
	// of its transaction together exceed WatchedTxnBytes. A caller that applies whole
	// batches still has what the store had at their revisions.
	//
	// A watch ends when the caller stops iterating, or with an error, after which
	// nothing more is yielded: ErrCompacted if the history from that revision is gone,
	// ErrUnavailable or ErrNoQuorum if the stream broke or went silent.
	Watch(ctx context.Context, prefix string, from Revision) iter.Seq2[Batch, error]

	// Grant opens a session. A TTL that is not positive is ErrInvalid. The store may
	// grant a different TTL than requested; only the returned one counts.
	//
	// A caller that will renew the session passes a folder, a prefix that ends in a
	// slash. The store keeps there what it needs to know whether the session is alive,
	// and sessions that share a folder may end each other once they are not renewed.
	// Without a folder nobody renews the session: it ends after its TTL, which a store
	// may then cut short when its members change.
	Grant(ctx context.Context, folder string, ttl time.Duration) (Session, error)

	// KeepAlive renews a session once and returns the TTL, which runs from the moment
	// the store processed the call. ErrSessionExpired means that the session is gone
	// for good.
	KeepAlive(ctx context.Context, id SessionID) (time.Duration, error)

	// Revoke ends a session at once and deletes its keys. Revoking a session that is
	// already gone is no error.
	Revoke(ctx context.Context, id SessionID) error

	// Close frees the connection. Calls in flight and all later calls return ErrClosed.
	// It ends no session. Closing twice is no error.
	Close() error
}

// Session is the result of Grant.
type Session struct {
	// ID identifies the session in later calls.
	ID SessionID
	// TTL is the granted TTL, counted from when the store processed the call.
	TTL time.Duration
}

// KV is a key with its value at some revision.
type KV struct {
	// Key is the full path.
	Key string
	// Value may be empty, and must not be modified.
	Value []byte
	// Created is the revision at which this key was created; deleting it and putting it
	// again gives it another one. Invariant: 0 < Created <= Modified.
	Created Revision
	// Modified is the revision of its last change.
	Modified Revision
	// Session is the session that the key belongs to, zero for a permanent key.
	Session SessionID
}

// Page is a part of a snapshot.
type Page struct {
	// KVs are the keys of this page, in ascending order.
	KVs []KV
	// Revision is the revision of the snapshot, the same on every page. It includes
	// every change up to and including this revision; watch from Revision+1.
	Revision Revision
}

// Batch is a group of changes that a watch delivers together. The changes of
// one transaction are never divided between two batches.
type Batch struct {
	// Events are in order of their revision; empty for progress only.
	Events []Event
	// Revision is the revision up to which, inclusive, the watch is complete.
	Revision Revision
}

// Event is one change of one key.
type Event struct {
	// Deleted is true for a deletion, expiry included, and false for a put.
	Deleted bool
	// KV is the key after a put. For a deleted key only Key and Modified are set;
	// Modified is the revision of the deletion.
	KV KV
}

// Limits that apply to every broker, whatever its store supports.
const (
	// KeyBytesMax limits a key, in bytes.
	KeyBytesMax = 1024
	// ValueBytesMax limits a value, in bytes.
	ValueBytesMax = 512 << 10
	// TxnOpsMax limits the conditions of one transaction, and also the operations of
	// either branch.
	TxnOpsMax = 128
	// TxnBytesMax limits the total size of keys and values of either branch of one
	// transaction, in bytes.
	TxnBytesMax = 1280 << 10
	// WatchedValueBytes and WatchedTxnBytes are the largest value, and the largest
	// total of the values of one transaction, that a watch always delivers, in bytes.
	WatchedValueBytes = 4 << 10
	WatchedTxnBytes   = 16 << 10
	// ProgressMax is the longest time between two batches of a healthy watch.
	ProgressMax = 10 * time.Second
)

// Collect reads a whole listing into memory and returns its keys and its revision. It
// lists again if the snapshot was compacted meanwhile.
func Collect(ctx context.Context, b Broker, prefix string) ([]KV, Revision, error) {
	for attempt := 1; ; attempt++ {
		kvs, rev, err := collectOnce(ctx, b, prefix)
		if err == nil || attempt == collectAttemptsMax || !errors.Is(err, ErrCompacted) {
			return kvs, rev, err
		}
	}
}

// collectAttemptsMax limits how often Collect lists. A listing takes well under a
// second and compaction keeps minutes of history, so the second attempt succeeds unless
// someone compacts in a loop.
const collectAttemptsMax = 5

func collectOnce(ctx context.Context, b Broker, prefix string) ([]KV, Revision, error) {
	var kvs []KV
	var rev Revision
	for page, err := range b.List(ctx, prefix) {
		if err != nil {
			return nil, 0, err
		}
		kvs = append(kvs, page.KVs...)
		rev = page.Revision
	}
	return kvs, rev, nil
}

// CommitOne commits a single transaction and returns its result and its error
// separately.
func CommitOne(ctx context.Context, b Broker, txn Txn) (Result, error) {
	r := b.Commit(ctx, txn)[0]
	return r, r.Err
}
