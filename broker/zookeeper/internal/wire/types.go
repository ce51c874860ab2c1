package wire

// Stat is the metadata of a znode, as far as package zookeeper needs it.
type Stat struct {
	// Czxid, Mzxid and Pzxid are the transactions that created the znode, that
	// last set its data, and that last created or deleted a child of it.
	Czxid, Mzxid, Pzxid int64
	// Version counts how often the data was set.
	Version int32
	// EphemeralOwner is the session of an ephemeral znode, zero of any other.
	EphemeralOwner int64
	// NumChildren counts the direct children.
	NumChildren int32
}

// ACL is one entry of a znode's access control list.
type ACL struct {
	// Perms are the permissions as bits; PermAll is all of them.
	Perms int32
	// Scheme and ID identify who has them.
	Scheme, ID string
}

// Permissions: to read data and children, and all of them.
const (
	PermRead = 1
	PermAll  = 31
)

// CreateMode is the kind of a znode to create.
type CreateMode int32

// The modes of znodes.
const (
	// Persistent znodes exist until they are deleted.
	Persistent CreateMode = 0
	// Ephemeral znodes are deleted when the session that created them ends.
	Ephemeral CreateMode = 1
)

// EventType is the kind of change of a watched znode.
type EventType int32

// The types of events that recursive watches send, named as in ZooKeeper.
const (
	EventCreated     EventType = 1
	EventDeleted     EventType = 2
	EventDataChanged EventType = 3
)

// Event is a change that a watch reports.
type Event struct {
	Type EventType
	Path string
}

// Code is an error of the server.
type Code int32

// The codes that package zookeeper handles or describes.
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
	CodeQuotaExceeded    Code = -125
	CodeThrottled        Code = -127
)
