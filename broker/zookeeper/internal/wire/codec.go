package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errDamaged is the sentinel of every error of a decoder.
var errDamaged = errors.New("damaged message")

// Encoder writes jute, ZooKeeper's encoding: big-endian integers, and buffers and
// vectors behind their lengths.
type Encoder struct{ buf []byte }

func (e *Encoder) int32(v int32)   { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *Encoder) int64(v int64)   { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }
func (e *Encoder) string(v string) { e.int32(int32(len(v))); e.buf = append(e.buf, v...) }
func (e *Encoder) bytes(v []byte)  { e.int32(int32(len(v))); e.buf = append(e.buf, v...) }
func (e *Encoder) bool(v bool)     { e.buf = append(e.buf, map[bool]byte{true: 1}[v]) }
func (e *Encoder) acls(acls []ACL) {
	e.int32(int32(len(acls)))
	for _, a := range acls {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

// Decoder reads jute. After the first error it returns zero values, so that err need only
// be checked at the end. Byte slices that it returns share the message's memory.
type Decoder struct {
	buf []byte
	err error
}

func (d *Decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
	}
	d.buf = nil
}

func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.buf) {
		d.fail("%d bytes are wanted of %d", n, len(d.buf))
		return nil
	}
	taken := d.buf[:n:n]
	d.buf = d.buf[n:]
	return taken
}

func (d *Decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *Decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *Decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// bytes reads a buffer, for which a length of -1 means none.
func (d *Decoder) bytes() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

func (d *Decoder) string() string { return string(d.bytes()) }

func (d *Decoder) strings() []string {
	n := int(d.int32())
	if n == -1 {
		return nil
	}
	// Each string takes at least four bytes, so an impossible length allocates nothing.
	if n < 0 || n > len(d.buf)/4 {
		d.fail("a vector of %d in %d bytes", n, len(d.buf))
		return nil
	}
	all := make([]string, n)
	for i := range all {
		all[i] = d.string()
	}
	return all
}

func (d *Decoder) acls() []ACL {
	n := int(d.int32())
	if n < 0 || n > len(d.buf)/12 { // as above
		d.fail("a list of %d in %d bytes", n, len(d.buf))
		return nil
	}
	all := make([]ACL, n)
	for i := range all {
		all[i] = ACL{Perms: d.int32(), Scheme: d.string(), ID: d.string()}
	}
	return all
}

func (d *Decoder) stat() Stat {
	s := Stat{Czxid: d.int64(), Mzxid: d.int64()}
	d.take(8 + 8) // ctime, mtime
	s.Version = d.int32()
	d.take(4 + 4) // cversion, aversion
	s.EphemeralOwner = d.int64()
	d.take(4) // dataLength
	s.NumChildren, s.Pzxid = d.int32(), d.int64()
	return s
}
