package wire

import "testing"

// Any message of a server gives a reply or an error, without excessive memory.
func FuzzReply(f *testing.F) {
	ok := &Encoder{}
	ok.int32(opGetData)
	ok.bool(false)
	ok.int32(0)
	ok.bytes([]byte("data"))
	ok.buf = append(ok.buf, make([]byte, 68)...) // a Stat
	multiEnd(ok)
	f.Add(int32(opMultiRead), int32(0), ok.buf)
	none, two := &Encoder{}, &Encoder{}
	multiEnd(none)
	multiHeader(two, opDelete)
	multiHeader(two, opDelete)
	multiEnd(two)
	f.Add(int32(opMultiRead), int32(0), none.buf)
	f.Add(int32(opMulti), int32(0), two.buf)
	f.Add(int32(opMulti), int32(CodeBadVersion), []byte{0, 0, 0, 0})
	f.Add(int32(opGetChildren), int32(0), []byte{0x7f, 0xff, 0xff, 0xff})
	f.Add(int32(opGetACL), int32(0), []byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, op, code int32, body []byte) {
		request := Request{op: op, read: readMulti(1)}
		if op != opMulti && op != opMultiRead {
			request.read = func(d *Decoder) []Result { return []Result{readResult(d, op)} }
		}
		reply, err := request.decodeReply(header{zxid: 1, code: Code(code)}, &Decoder{buf: body})
		if err == nil && len(reply.Results) != 1 {
			t.Errorf("%d results of one operation", len(reply.Results))
		}
		d := &Decoder{buf: body}
		if e := readEvent(d); d.err == nil && len(e.Path) > len(body) {
			t.Errorf("an event with a path of %d bytes, of %d", len(e.Path), len(body))
		}
	})
}
