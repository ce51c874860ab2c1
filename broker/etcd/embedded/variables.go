package embedded

import (
	"sync"
	_ "unsafe" // for go:linkname

	_ "go.etcd.io/etcd/server/v3/storage/mvcc" // has watchBatchMaxRevs
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// segmentBytes is the size of a file of the write-ahead log. etcd always creates two in
// advance. Its default of 64 MB is meant for servers; this is enough for some thousand
// claims.
const segmentBytes = 8 << 20

// catchUpRevisions is how many revisions are sent at once to a watch that lags. By default
// etcd sends 1,000 in a round, and waits for the next round as long as the last one took.
// That is zero in virtual time or with a coarse clock, and a ticker of zero panics as soon as
// one of two watches has caught up and the other has not
// (https://github.com/etcd-io/etcd/issues/22296, open in 3.7.3). With this number there is one
// round.
const catchUpRevisions = 100_000

// watchBatchMaxRevs is etcd's variable, for which there is no setting.
//
//go:linkname watchBatchMaxRevs go.etcd.io/etcd/server/v3/storage/mvcc.watchBatchMaxRevs
var watchBatchMaxRevs int

// setVariables changes etcd's variables, once and before any server of this package reads
// them.
var setVariables = sync.OnceFunc(func() {
	wal.SegmentSizeBytes = segmentBytes
	watchBatchMaxRevs = catchUpRevisions
})
