package broker

import (
	"context"
	"iter"
	"time"
)

// Revision numbers the changes of a store. It only ever rises; zero is before
// the first change and is never assigned.
type Revision int64

// SessionID names a session of the store. Zero means no session.
type SessionID int64

// Broker is the seam between Windlass and a store. Its methods are safe for
// concurrent use. Every error of a broker is an *Error whose kind is one of the
// sentinels of this package; a context's end is reported as ErrUnavailable with
// the context's error as its cause.
type Broker interface {
	// Get reads one key. It returns ErrNotFound when the key does not exist.
	Get(ctx context.Context, key string) (KV, error)

	// List yields the keys below prefix, which must end in a slash, in
	// ascending order of their bytes. All pages are read at one revision. An
	// empty prefix yields one empty page, so that its revision is known. After
	// an error nothing more is yielded; ErrCompacted means that the snapshot
	// was compacted while it was being paged, and that listing again will do.
	List(ctx context.Context, prefix string) iter.Seq2[Page, error]

	// Commit applies independent transactions in as few round trips as the
	// store allows and returns one result for each, in order. Those that have a
	// key in common take effect as if one after the other, in order; others may
	// share a revision, or have theirs in another order. That one is refused
	// stops no other; when the outcome of one is unknown, later ones that have
	// a key in common with it are not sent.
	Commit(ctx context.Context, txns ...Txn) []Result

	// Watch yields the changes of the keys below prefix, or of one key alone if it
	// does not end in a slash, from the given revision on (at least 1, that
	// revision included). Batches come in order, and their revisions never fall; a
	// batch without events is progress: nothing up to its revision is outstanding.
	// Progress comes at least every ProgressMax while the watch is healthy.
	//
	// A put with a long value may be left out if its key has changed again by the end of the
	// batch: one longer than WatchedValueBytes, or of a transaction whose values are longer
	// than WatchedTxnBytes together. Whoever applies whole batches still has what the store
	// had at their revisions.
	//
	// A watch ends when the caller stops iterating, or with an error, after which nothing
	// more is yielded:
	// ErrCompacted when the history from that revision is gone, ErrUnavailable
	// or ErrNoQuorum when the stream broke or went silent.
	Watch(ctx context.Context, prefix string, from Revision) iter.Seq2[Batch, error]

	// Grant opens a session. A TTL that is not positive is ErrInvalid. The store may
	// grant another TTL than asked for, and only the one it returns counts.
	//
	// Whoever is going to renew it names a folder, a prefix that ends in a slash, for what
	// the store needs of its own to tell whether the session lives; those who share a
	// folder may end each other's sessions once they are not renewed. Without a folder
	// nobody renews it: it ends after its TTL, which a store may then cut short when its
	// members change.
	Grant(ctx context.Context, folder string, ttl time.Duration) (Session, error)

	// KeepAlive renews a session once and returns the TTL that runs from the
	// moment the store processed it. ErrSessionExpired means that the session
	// is gone for good.
	KeepAlive(ctx context.Context, id SessionID) (time.Duration, error)

	// Revoke ends a session at once and deletes its keys. A session that is
	// gone already is no error.
	Revoke(ctx context.Context, id SessionID) error

	// Close frees the connection. Calls in flight end with ErrClosed, and so
	// does every later call. It ends no session. Closing twice is no error.
	Close() error
}

// Session is what Grant returns.
type Session struct {
	// ID names the session in later calls.
	ID SessionID
	// TTL is what the store granted, counted from when it processed the call.
	TTL time.Duration
}

// KV is a key with its value at some revision.
type KV struct {
	// Key is the full path.
	Key string
	// Value may be empty, and must not be modified.
	Value []byte
	// Created is the revision at which this key came into being; deleting and
	// putting it again gives it another one. Invariant: 0 < Created <= Modified.
	Created Revision
	// Modified is the revision of its last change.
	Modified Revision
	// Session is the session the key lives with, zero for a permanent key.
	Session SessionID
}

// Page is a part of a snapshot.
type Page struct {
	// KVs are the keys of this page, ascending.
	KVs []KV
	// Revision is the snapshot's, the same on every page. Every change up to
	// and including it is in the snapshot; watch from Revision+1.
	Revision Revision
}

// Batch is a group of changes that a watch delivers together. The changes of
// one transaction are never divided between two batches.
type Batch struct {
	// Events are in order of their revision; empty for mere progress.
	Events []Event
	// Revision is the one up to which, inclusive, the watch is complete.
	Revision Revision
}

// Event is one change of one key.
type Event struct {
	// Deleted tells a deletion, expiry included, from a put.
	Deleted bool
	// KV is the key after a put. Of a deleted key only Key and Modified are
	// set, the latter to the revision of the deletion.
	KV KV
}

// Limits that every broker keeps, whatever its store could do.
const (
	// KeyBytesMax bounds a key, in bytes.
	KeyBytesMax = 1024
	// ValueBytesMax bounds a value, in bytes.
	ValueBytesMax = 512 << 10
	// TxnOpsMax bounds the conditions, and likewise the operations of either
	// branch, of one transaction.
	TxnOpsMax = 128
	// TxnBytesMax bounds the keys and values of either branch of one
	// transaction together, in bytes.
	TxnBytesMax = 1280 << 10
	// WatchedValueBytes and WatchedTxnBytes bound a value, and the values of one transaction,
	// that a watch delivers in any case, in bytes.
	WatchedValueBytes = 4 << 10
	WatchedTxnBytes   = 16 << 10
	// ProgressMax is the longest time between two batches of a healthy watch.
	ProgressMax = 10 * time.Second
)

// Collect reads a whole listing into memory: its keys, and its revision. It
// lists again when the snapshot was compacted while it was read.
func Collect(ctx context.Context, b Broker, prefix string) ([]KV, Revision, error) {
	for attempt := 1; ; attempt++ {
		kvs, rev, err := collectOnce(ctx, b, prefix)
		if err == nil || attempt == collectAttemptsMax || !isCompacted(err) {
			return kvs, rev, err
		}
	}
}

// collectAttemptsMax bounds how often Collect lists anew. A listing takes well
// under a second and compaction keeps minutes of history, so the second attempt
// succeeds unless someone compacts in a loop.
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

// CommitOne commits a single transaction and returns its result with its error
// apart.
func CommitOne(ctx context.Context, b Broker, txn Txn) (Result, error) {
	r := b.Commit(ctx, txn)[0]
	return r, r.Err
}
