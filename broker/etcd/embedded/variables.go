package embedded

import (
	"sync"
	_ "unsafe" // for go:linkname

	_ "go.etcd.io/etcd/server/v3/storage/mvcc" // has watchBatchMaxRevs
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// segmentBytes is the size of a piece of the write-ahead log, of which etcd
// always has two made in advance. Its own 64 MB are meant for servers; these are
// enough for some thousand claims each.
const segmentBytes = 8 << 20

// catchUpRevisions is how many revisions a watch that is behind is sent at once.
// etcd sends 1,000 in a round, and sets the time to the next round to what the
// last one took. Where the clock stands still, in virtual time or between two ticks
// of a coarse clock, that is zero, and a ticker of zero makes it panic as soon as one
// of two watches has caught up and the other has not
// (https://github.com/etcd-io/etcd/issues/22296, open in 3.7.3).
// With these there is one round.
const catchUpRevisions = 100_000

// watchBatchMaxRevs is etcd's, which offers no setting for it.
//
//go:linkname watchBatchMaxRevs go.etcd.io/etcd/server/v3/storage/mvcc.watchBatchMaxRevs
var watchBatchMaxRevs int

// setVariables changes variables of etcd's, once and before any server of this
// package reads them.
var setVariables = sync.OnceFunc(func() {
	wal.SegmentSizeBytes = segmentBytes
	watchBatchMaxRevs = catchUpRevisions
})
