package wire

// Stat is what ZooKeeper keeps about a znode.
type Stat struct {
	// Czxid, Mzxid and Pzxid are the transactions that created the znode, that
	// last set its data, and that last created or deleted a child of it.
	Czxid, Mzxid int64
	// Ctime and Mtime are their times by the leader's clock, in milliseconds.
	Ctime, Mtime int64
	// Version counts how often the data was set, Cversion changes of the
	// children, Aversion changes of the ACL.
	Version, Cversion, Aversion int32
	// EphemeralOwner is the session of an ephemeral znode, zero of any other.
	EphemeralOwner int64
	// DataLength is in bytes.
	DataLength int32
	// NumChildren counts the direct children.
	NumChildren int32
	// Pzxid is described above.
	Pzxid int64
}

// ACL is one entry of a znode's access control list.
type ACL struct {
	// Perms are the permissions as bits; PermAll is all of them.
	Perms int32
	// Scheme and ID say whose they are.
	Scheme, ID string
}

// Permissions: that to read data and children, and every one.
const (
	PermRead = 1
	PermAll  = 31
)

// CreateMode says what kind of znode to create.
type CreateMode int32

// The modes of znodes.
const (
	// Persistent stays until it is deleted.
	Persistent CreateMode = 0
	// Ephemeral goes with the session that created it.
	Ephemeral CreateMode = 1
)

// EventType says what happened to a watched znode.
type EventType int32

// The types of events.
const (
	// EventCreated and the others are named as in ZooKeeper.
	EventCreated         EventType = 1
	EventDeleted         EventType = 2
	EventDataChanged     EventType = 3
	EventChildrenChanged EventType = 4
)

// Event is one that a watch caught.
type Event struct {
	Type EventType
	Path string
}

// Code is an error of the server.
type Code int32

// The codes that mean something to the adapter.
const (
	CodeOK               Code = 0
	CodeInconsistency    Code = -2
	CodeConnectionLoss   Code = -4
	CodeMarshalling      Code = -5
	CodeUnimplemented    Code = -6
	CodeOperationTimeout Code = -7
	CodeBadArguments     Code = -8
	CodeNoNode           Code = -101
	CodeNoAuth           Code = -102
	CodeBadVersion       Code = -103
	CodeNoChildren       Code = -108
	CodeNodeExists       Code = -110
	CodeNotEmpty         Code = -111
	CodeSessionExpired   Code = -112
	CodeInvalidACL       Code = -114
	CodeAuthFailed       Code = -115
	CodeSessionMoved     Code = -118
	CodeNotReadOnly      Code = -119
	CodeNoWatcher        Code = -121
	CodeQuotaExceeded    Code = -125
	CodeThrottled        Code = -127
)
