package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// record lists for the watchers what a transaction changes: keys, and znodes that change
// while no key does. It is written in the same transaction, to a slot of the ring; see
// ring.go. ZooKeeper's own events carry neither values nor revisions, and two changes of one
// znode in quick succession can be read only as one.
type record []change

// change is the change of one znode.
type change struct {
	kind changeKind
	// events is how many events the znode's watchers get.
	events int
	// path is below the chroot.
	path string
	// created is the revision of the key's creation, zero if this transaction creates it.
	created broker.Revision
	session broker.SessionID
	value   []byte
	// long is the length of a value that is left out, zero if it is present.
	long int
}

type changeKind byte

const (
	changeQuiet changeKind = iota + 1
	changePut
	// changeLong is a put whose value is too long for the slot.
	changeLong
	changeDelete
	changeKinds
)

// recordVersion is the first byte of every record.
const recordVersion = 3

// slim returns the record without its long values, which watchers read from the znodes.
func (r record) slim() record {
	total := 0
	out := slices.Clone(r)
	for i, c := range out {
		if c.kind != changePut {
			continue
		}
		if size := len(c.value); size > broker.WatchedValueBytes || total+size > broker.WatchedTxnBytes {
			out[i].kind, out[i].value, out[i].long = changeLong, nil, size
		} else {
			total += size
		}
	}
	return out
}

func (r record) encode() []byte {
	data := []byte{recordVersion}
	for _, c := range r {
		data = append(data, byte(c.kind))
		data = binary.AppendUvarint(data, uint64(c.events))
		data = appendBytes(data, c.path)
		switch c.kind {
		case changePut:
			data = appendOwner(data, c)
			data = appendBytes(data, c.value)
		case changeLong:
			data = appendOwner(data, c)
			data = binary.AppendUvarint(data, uint64(c.long))
		}
	}
	return data
}

func appendOwner(data []byte, c change) []byte {
	return binary.AppendVarint(binary.AppendVarint(data, int64(c.created)), int64(c.session))
}

func appendBytes[T string | []byte](data []byte, v T) []byte {
	return append(binary.AppendUvarint(data, uint64(len(v))), v...)
}

var errRecord = errors.New("damaged record")

// decodeRecord is the inverse of encode.
func decodeRecord(data []byte) (record, error) {
	if len(data) < 1 || data[0] != recordVersion {
		return nil, fmt.Errorf("%w: %d bytes, not of version %d", errRecord, len(data), recordVersion)
	}
	var r record
	d := recordDecoder{data: data[1:]}
	for len(d.data) > 0 && !d.bad {
		c := change{kind: changeKind(d.data[0])}
		d.data = d.data[1:]
		if c.kind == 0 || c.kind >= changeKinds {
			return nil, fmt.Errorf("%w: a change of kind %d", errRecord, c.kind)
		}
		c.events = int(d.uvarint())
		c.path = string(d.bytes())
		if c.kind == changePut || c.kind == changeLong {
			c.created, c.session = broker.Revision(d.varint()), broker.SessionID(d.varint())
		}
		switch c.kind {
		case changePut:
			c.value = d.bytes()
		case changeLong:
			c.long = int(d.uvarint())
		}
		if c.events < 0 || c.created < 0 || c.long < 0 || c.long > broker.ValueBytesMax || !strings.HasPrefix(c.path, "/") {
			d.bad = true
		}
		r = append(r, c)
	}
	if d.bad {
		return nil, fmt.Errorf("%w: it ends too early or has a number out of range", errRecord)
	}
	return r, nil
}

type recordDecoder struct {
	data []byte
	bad  bool
}

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	return skip(d, v, n)
}

func (d *recordDecoder) varint() int64 {
	v, n := binary.Varint(d.data)
	return skip(d, v, n)
}

func skip[T any](d *recordDecoder, v T, n int) T {
	if n <= 0 {
		d.bad, d.data = true, nil
		var zero T
		return zero
	}
	d.data = d.data[n:]
	return v
}

func (d *recordDecoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.data)) {
		d.bad, d.data = true, nil
		return nil
	}
	taken := d.data[:n:n]
	d.data = d.data[n:]
	if len(taken) == 0 {
		return nil
	}
	return taken
}
