package wire

// Reply is the answer to a request.
type Reply struct {
	// Zxid is the last transaction that the server had applied when it answered;
	// if the request writes, it is the request's own.
	Zxid int64
	// Results has one result for each operation.
	Results []Result
}

// Failed returns the index and code of the operation that made a Multi fail, or
// -1 and CodeOK.
func (r Reply) Failed() (int, Code) {
	for i, result := range r.Results {
		if result.Code != CodeOK && result.Code != CodeInconsistency {
			return i, result.Code
		}
	}
	return -1, CodeOK
}

// header is the beginning of every message from the server.
type header struct {
	xid  int32
	zxid int64
	code Code
}

func readHeader(d *Decoder) header {
	return header{xid: d.int32(), zxid: d.int64(), code: Code(d.int32())}
}

func readEvent(d *Decoder) Event {
	e := Event{Type: EventType(d.int32())}
	d.int32() // the state of the connection
	e.Path = d.string()
	return e
}

func readResult(d *Decoder, op int32) (r Result) {
	switch op {
	case opCreate: // the operation of a creation in the answer to a multi
		d.string()
	case opCreate2:
		d.string() // the path, as we named it
		r.Stat = d.stat()
	case opSetData:
		r.Stat = d.stat()
	case opGetData:
		r.Data = d.bytes()
		r.Stat = d.stat()
	case opGetChildren:
		r.Children = d.strings()
	case opGetACL:
		r.ACLs = d.acls()
		r.Stat = d.stat()
	case opError:
		r.Code = Code(d.int32())
	case opDelete, opCheck:
	default:
		d.fail("a result of operation %d", op)
	}
	return r
}

// readMulti reads the results of a Multi or MultiRead. It fails unless there is one for each
// operation, because callers index them.
func readMulti(n int) func(*Decoder) []Result {
	return func(d *Decoder) []Result {
		var all []Result
		for d.err == nil {
			op, done := d.int32(), d.bool()
			d.int32() // the error, again
			if done || len(all) > n {
				break
			}
			all = append(all, readResult(d, op))
		}
		if len(all) != n {
			d.fail("%d results of %d operations", len(all), n)
		}
		return all
	}
}

// decodeReply reads the body of a reply. The results of a failed Multi say which operation
// failed, although its header has an error.
func (r Request) decodeReply(h header, d *Decoder) (Reply, error) {
	reply := Reply{Zxid: h.zxid}
	if h.code != CodeOK && (r.op != opMulti || len(d.buf) == 0) {
		return reply, h.code
	}
	if r.read != nil {
		reply.Results = r.read(d)
	}
	if d.err != nil {
		return Reply{}, d.err
	}
	if i, _ := reply.Failed(); h.code != CodeOK && i < 0 {
		return reply, h.code
	}
	return reply, nil
}
