package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// record tells the watchers what a transaction changes. It is written in the same
// transaction, to a slot of the ring; see ring.go. ZooKeeper's own events carry
// neither values nor revisions, and two changes of one znode that follow each other
// closely can be read only as one.
type record struct {
	// id is the transaction's, unique by chance.
	id uint64
	// changes are of keys, and of znodes that change while no key does.
	changes []change
}

// change is one znode of a record.
type change struct {
	kind changeKind
	// events is how many events the znode's watchers get.
	events int
	// path is below the chroot.
	path string
	// created is the revision of the key's creation, zero if it is this
	// transaction's.
	created broker.Revision
	session broker.SessionID
	value   []byte
}

type changeKind byte

const (
	changeQuiet changeKind = iota + 1
	changePut
	// changeOmitted is a put whose value is too long for the slot.
	changeOmitted
	changeDelete
	changeKinds
)

const (
	// recordVersion begins every record.
	recordVersion = 2
	// inlineMax bounds a value in a record, and inlineTotalMax all of its values,
	// in bytes. Longer ones are read from the znode.
	inlineMax      = 4 << 10
	inlineTotalMax = 16 << 10
)

// slim returns the record with the long values left out, and whether there were
// any.
func (r record) slim() (record, bool) {
	total, omitted := 0, false
	out := record{id: r.id, changes: make([]change, len(r.changes))}
	for i, c := range r.changes {
		if c.kind == changePut {
			if total += len(c.value); len(c.value) > inlineMax || total > inlineTotalMax {
				total -= len(c.value)
				c.kind, c.value, omitted = changeOmitted, nil, true
			}
		}
		out.changes[i] = c
	}
	return out, omitted
}

func (r record) encode() []byte {
	data := []byte{recordVersion}
	data = binary.BigEndian.AppendUint64(data, r.id)
	for _, c := range r.changes {
		data = append(data, byte(c.kind))
		data = binary.AppendUvarint(data, uint64(c.events))
		data = appendBytes(data, c.path)
		if c.kind == changePut || c.kind == changeOmitted {
			data = binary.AppendVarint(data, int64(c.created))
			data = binary.AppendVarint(data, int64(c.session))
			data = appendBytes(data, c.value)
		}
	}
	return data
}

func appendBytes[T string | []byte](data []byte, v T) []byte {
	return append(binary.AppendUvarint(data, uint64(len(v))), v...)
}

var errRecord = errors.New("damaged record")

// decodeRecord reads what encode wrote.
func decodeRecord(data []byte) (record, error) {
	if len(data) < 9 || data[0] != recordVersion {
		return record{}, fmt.Errorf("%w: %d bytes, not of version %d", errRecord, len(data), recordVersion)
	}
	r := record{id: binary.BigEndian.Uint64(data[1:])}
	d := recordDecoder{data: data[9:]}
	for len(d.data) > 0 && !d.bad {
		c := change{kind: changeKind(d.data[0])}
		d.data = d.data[1:]
		if c.kind == 0 || c.kind >= changeKinds {
			return record{}, fmt.Errorf("%w: a change of kind %d", errRecord, c.kind)
		}
		c.events = int(d.uvarint())
		c.path = string(d.bytes())
		if c.kind == changePut || c.kind == changeOmitted {
			c.created, c.session = broker.Revision(d.varint()), broker.SessionID(d.varint())
			c.value = d.bytes()
		}
		if c.events < 0 || c.created < 0 || !strings.HasPrefix(c.path, "/") {
			d.bad = true
		}
		r.changes = append(r.changes, c)
	}
	if d.bad {
		return record{}, fmt.Errorf("%w: it ends too early or has a number out of range", errRecord)
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
