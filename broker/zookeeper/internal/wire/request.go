package wire

// The opcodes of ZooKeeper's protocol.
const (
	opCreate       = 1
	opCreate2      = 15
	opDelete       = 2
	opGetData      = 4
	opSetData      = 5
	opGetACL       = 6
	opGetChildren  = 8
	opSync         = 9
	opPing         = 11
	opCheck        = 13
	opMulti        = 14
	opMultiRead    = 22
	opAuth         = 100
	opAddWatch     = 106
	opCloseSession = -11
	opError        = -1
)

// Request is a request to the server, made by the functions below.
type Request struct {
	op   int32
	body []byte
	// read parses the results of a reply; nil if it has none.
	read func(*Decoder) []Result
}

// Size returns the bytes that the request takes on the wire. A server closes the connection
// if it is too large.
func (r Request) Size() int { return len(r.body) + 12 }

// Result is the answer to one operation. Which fields are set depends on the
// operation; all others are empty if Code is not CodeOK.
type Result struct {
	Code     Code
	Stat     Stat
	Data     []byte
	Children []string
	ACLs     []ACL
}

// Op is an operation of a Multi.
type Op struct {
	op      int32
	path    string
	data    []byte
	mode    CreateMode
	acls    []ACL
	version int32
}

// AnyVersion makes an operation ignore the version.
const AnyVersion = -1

// Create creates a znode.
func Create(path string, data []byte, mode CreateMode, acls []ACL) Op {
	return Op{op: opCreate2, path: path, data: data, mode: mode, acls: acls}
}

// Delete deletes a znode, if it has the version.
func Delete(path string, version int32) Op { return Op{op: opDelete, path: path, version: version} }

// SetData sets a znode's data, if it has the version.
func SetData(path string, data []byte, version int32) Op {
	return Op{op: opSetData, path: path, data: data, version: version}
}

// Check makes a Multi fail unless a znode exists and has the version.
func Check(path string, version int32) Op { return Op{op: opCheck, path: path, version: version} }

func (o Op) encode(e *Encoder) {
	e.string(o.path)
	switch o.op {
	case opCreate2:
		e.bytes(o.data)
		e.acls(o.acls)
		e.int32(int32(o.mode))
	case opDelete, opCheck:
		e.int32(o.version)
	case opSetData:
		e.bytes(o.data)
		e.int32(o.version)
	}
}

// Single returns a request with one operation that is not a check.
func Single(o Op) Request {
	e := &Encoder{}
	o.encode(e)
	return Request{op: o.op, body: e.buf, read: func(d *Decoder) []Result { return []Result{readResult(d, o.op)} }}
}

// Multi returns a request whose operations are applied all or none. It has one result for
// each operation. When one fails, those before it have CodeOK, and those after it
// CodeInconsistency.
func Multi(ops []Op) Request {
	e := &Encoder{}
	for _, o := range ops {
		multiHeader(e, o.op)
		o.encode(e)
	}
	multiEnd(e)
	return Request{op: opMulti, body: e.buf, read: readMulti(len(ops))}
}

// Read is an operation of a MultiRead.
type Read struct {
	op   int32
	path string
}

// GetData reads a znode's data and Stat.
func GetData(path string) Read { return Read{opGetData, path} }

// GetChildren reads the names of a znode's children.
func GetChildren(path string) Read { return Read{opGetChildren, path} }

// MultiRead returns a request whose reads all see the same state. The others succeed even
// if one fails.
func MultiRead(reads []Read) Request {
	e := &Encoder{}
	for _, r := range reads {
		multiHeader(e, r.op)
		e.string(r.path)
		e.bool(false) // no watch
	}
	multiEnd(e)
	return Request{op: opMultiRead, body: e.buf, read: readMulti(len(reads))}
}

func multiHeader(e *Encoder, op int32) {
	e.int32(op)
	e.bool(false)
	e.int32(-1)
}

func multiEnd(e *Encoder) {
	e.int32(-1)
	e.bool(true)
	e.int32(-1)
}

// GetACL reads the access control list of a znode.
func GetACL(path string) Request { return Single(Op{op: opGetACL, path: path}) }

// Sync makes the server catch up with the leader before it answers.
func Sync() Request {
	e := &Encoder{}
	e.string("/")
	return Request{op: opSync, body: e.buf}
}

// addWatchRecursive is the mode of a watch that persists and covers a subtree.
const addWatchRecursive = 1

// AddWatch watches a znode, which need not exist, and all below it until the connection
// ends.
func AddWatch(path string) Request {
	e := &Encoder{}
	e.string(path)
	e.int32(addWatchRecursive)
	return Request{op: opAddWatch, body: e.buf}
}

// CloseSession ends the session and deletes its ephemeral znodes.
func CloseSession() Request { return Request{op: opCloseSession} }
