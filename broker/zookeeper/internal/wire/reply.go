package wire

// Reply is the answer to a request.
type Reply struct {
	// Zxid is the last transaction that the server had applied when it answered;
	// of a request that writes it is its own.
	Zxid int64
	// Results are the results, one for each operation.
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

// header is what every message from the server begins with.
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
	d.int32() // the state of the connection, which we know better
	e.Path = d.string()
	return e
}

func readResult(d *Decoder, op int32) (r Result) {
	switch op {
	case opCreate: // what a creation is called in the answer to a multi
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

// readMulti reads the results of a Multi or MultiRead, of which there has to be one for
// each operation: who asked goes by their number.
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

// decodeReply reads the body of a reply. A Multi that failed has results, which say
// which operation it was, although its header has an error.
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
