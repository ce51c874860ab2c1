package zookeeper

import (
	"encoding/binary"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// The meaning of a znode's data. A value is stored as it is, so that a plain client can
// read it, unless it begins with one of the marks or needs a header.
//
//	00                          no key: a directory
//	00 value                    a value that begins with a mark
//	01 created modified value   a value with a header, twice 8 bytes
//	anything else               the value
const (
	markDirectory = 0x00
	markEscape    = 0x00
	markHeader    = 0x01
	// marksEnd is the first byte that is no mark; those below it are reserved.
	marksEnd = 0x04
)

// headerBytes is the length of a header with its mark.
const headerBytes = 1 + 2*8

// directory is the data of a znode that is no key.
var directory = []byte{markDirectory}

// header holds a key's revisions where those of its znode are not the key's.
type header struct {
	// created is the revision of the key's creation. Zero means the znode's own
	// czxid; createdNow means its mzxid, for a key put where a directory was.
	created int64
	// modified is the revision of the key's last change; zero means the znode's mzxid.
	// It is set when the znode was created again without a change of the key.
	modified int64
}

// createdNow is the revision of the transaction that writes the header, whose number is
// not known in advance.
const createdNow = -1

// encode returns the data of a key's znode.
func encode(value []byte, h header) []byte {
	switch {
	case h != header{}:
		data := make([]byte, 0, headerBytes+len(value))
		data = append(data, markHeader)
		for _, field := range []int64{h.created, h.modified} {
			data = binary.BigEndian.AppendUint64(data, uint64(field))
		}
		return append(data, value...)
	case len(value) > 0 && value[0] < marksEnd:
		return append([]byte{markEscape}, value...)
	default:
		return value
	}
}

// decode parses the data of a znode. ok is false for a directory.
func decode(data []byte) (value []byte, h header, ok bool) {
	switch {
	case len(data) == 1 && data[0] == markDirectory:
		return nil, header{}, false
	case len(data) > 1 && data[0] == markEscape:
		return data[1:], header{}, true
	case len(data) >= headerBytes && data[0] == markHeader:
		field := func(i int) int64 { return int64(binary.BigEndian.Uint64(data[1+8*i:])) }
		return data[headerBytes:], header{created: field(0), modified: field(1)}, true
	default:
		return data, header{}, true
	}
}

// znode is a znode as it was read. The zero value does not exist.
type znode struct {
	there bool
	data  []byte
	stat  wire.Stat
}

// kv returns the key that the znode holds, nil if it does not exist or is a directory.
func (z znode) kv(key string) *broker.KV {
	if !z.there {
		return nil
	}
	value, h, ok := decode(z.data)
	if !ok {
		return nil
	}
	kv := &broker.KV{Key: key, Created: broker.Revision(z.stat.Czxid), Modified: broker.Revision(z.stat.Mzxid),
		Session: broker.SessionID(z.stat.EphemeralOwner)}
	if len(value) > 0 {
		kv.Value = value
	}
	switch {
	case h.created == createdNow:
		kv.Created = kv.Modified
	case h.created > 0:
		kv.Created = broker.Revision(h.created)
	}
	if h.modified > 0 {
		kv.Modified = broker.Revision(h.modified)
	}
	return kv
}
