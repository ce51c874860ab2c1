package etcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
)

// etcd's limits for a request. The first is its --max-txn-ops, which also limits the sum of
// the operations of a nested transaction and of the one around it: n transactions of at most
// m conditions or operations fit if n + m does not exceed it. The second is two thirds of
// --max-request-bytes (1.5 MiB), because sizes are estimates.
const (
	requestOpsMax   = 128
	requestBytesMax = 1 << 20
)

// pack divides transactions that have no key in common into requests, in order. Those that
// only delete or read are sent separately from those that put: a full store accepts only the
// former, which free space, and refuses a request with a put as a whole.
func pack(txns []broker.Txn, batch []int) [][]int {
	var putting, others []int
	for _, i := range batch {
		if slices.ContainsFunc(txns[i].Then, func(op broker.Op) bool { return op.Kind == broker.OpPut }) {
			putting = append(putting, i)
		} else {
			others = append(others, i)
		}
	}
	return append(packAlike(txns, putting), packAlike(txns, others)...)
}

func writes(t broker.Txn) bool {
	return slices.ContainsFunc(t.Then, func(op broker.Op) bool { return op.Kind != broker.OpRead })
}

func packAlike(txns []broker.Txn, batch []int) [][]int {
	var requests [][]int
	var members []int
	opsMax, bytes := 0, 0
	for _, i := range batch {
		ops, size := weigh(txns[i])
		full := len(members)+1+max(opsMax, ops) > requestOpsMax || bytes+size > requestBytesMax
		if full && len(members) > 0 {
			requests = append(requests, members)
			members, opsMax, bytes = nil, 0, 0
		}
		members = append(members, i)
		opsMax, bytes = max(opsMax, ops), bytes+size
	}
	if len(members) > 0 {
		requests = append(requests, members)
	}
	return requests
}

// opOverhead is a generous estimate of the bytes of a condition or operation besides its key
// and value.
const opOverhead = 48

// weigh returns the number that counts against the operation limit, and about how many bytes
// the transaction takes on the wire.
func weigh(txn broker.Txn) (ops, bytes int) {
	bytes = opOverhead
	for _, c := range txn.If {
		bytes += opOverhead + len(c.Key)
	}
	for _, branch := range [][]broker.Op{txn.Then, txn.Else} {
		for _, op := range branch {
			bytes += opOverhead + len(op.Key) + len(op.Value)
		}
	}
	return max(len(txn.If), len(txn.Then), len(txn.Else)), bytes
}

// build makes one request of the given transactions: a single one as it is, several nested
// in one without conditions. It uses etcd's own messages, because the client's builder
// copies each of them several times.
func (c *commit) build(members []int) *pb.TxnRequest {
	if len(members) == 1 {
		r := c.translate(c.txns[members[0]])
		if bare(c.txns[members[0]]) && len(r.Compare) > 0 {
			// Without any operation etcd evaluates the conditions on one member, which
			// may lag; with a read it asks the others first.
			r.Failure = []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: []byte(c.txns[members[0]].If[0].Key), KeysOnly: true},
			}}}
		}
		return r
	}
	outer := &pb.TxnRequest{Success: make([]*pb.RequestOp, len(members))}
	for n, i := range members {
		outer.Success[n] = &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: c.translate(c.txns[i])}}
	}
	return outer
}

// bare reports whether a transaction has only conditions.
func bare(txn broker.Txn) bool { return len(txn.Then)+len(txn.Else) == 0 }

func (c *commit) translate(txn broker.Txn) *pb.TxnRequest {
	r := &pb.TxnRequest{Compare: make([]*pb.Compare, len(txn.If))}
	for i, cond := range txn.If {
		r.Compare[i] = comparison(cond)
	}
	r.Success = c.operations(txn.Then)
	r.Failure = c.operations(txn.Else)
	return r
}

// comparison uses that a missing key has creation revision 0.
func comparison(cond broker.Cond) *pb.Compare {
	revision := int64(cond.Revision)
	if revision <= 0 {
		// For etcd a missing key would match.
		revision = -1
	}
	r := &pb.Compare{Key: []byte(cond.Key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL}
	switch cond.Kind {
	case broker.CondExists:
		r.Result, r.TargetUnion = pb.Compare_GREATER, &pb.Compare_CreateRevision{}
	case broker.CondAbsent:
		r.TargetUnion = &pb.Compare_CreateRevision{}
	case broker.CondCreated:
		r.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: revision}
	case broker.CondModified:
		r.Target, r.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: revision}
	default:
		panic("etcd: a condition that Validate let through")
	}
	return r
}

// operations puts the reads first, because etcd runs operations in order, and reads must see
// the state before the transaction's own writes.
func (c *commit) operations(ops []broker.Op) []*pb.RequestOp {
	out := make([]*pb.RequestOp, 0, len(ops))
	for _, op := range ops {
		if op.Kind == broker.OpRead {
			out = append(out, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(op.Key)}}})
		}
	}
	for _, op := range ops {
		switch op.Kind {
		case broker.OpPut:
			out = append(out, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
				Key: []byte(op.Key), Value: op.Value, Lease: int64(op.Session),
			}}})
		case broker.OpDelete:
			out = append(out, deletion(&pb.DeleteRangeRequest{Key: []byte(op.Key)}))
		case broker.OpDeleteTree:
			end := clientv3.GetPrefixRangeEnd(op.Key)
			out = append(out, deletion(&pb.DeleteRangeRequest{Key: []byte(op.Key), RangeEnd: []byte(end)}))
		case broker.OpRead:
		}
	}
	return out
}

func deletion(r *pb.DeleteRangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}
}

// fits reports whether an answer matches a request: it must have a result of the right kind
// for each operation of the branch that was taken. Without TLS nothing else detects damage
// on the way, and callers index the results.
func fits(request *pb.TxnRequest, answer *pb.TxnResponse) bool {
	branch := request.Failure
	if answer.Succeeded {
		branch = request.Success
	}
	if len(answer.Responses) != len(branch) || !answer.Succeeded && len(request.Compare) == 0 {
		return false
	}
	for i, op := range branch {
		found, ok := answer.Responses[i], false
		switch asked := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			ok = found.GetResponseRange() != nil
		case *pb.RequestOp_RequestPut:
			ok = found.GetResponsePut() != nil
		case *pb.RequestOp_RequestDeleteRange:
			ok = found.GetResponseDeleteRange() != nil
		case *pb.RequestOp_RequestTxn:
			nested := found.GetResponseTxn()
			ok = nested != nil && fits(asked.RequestTxn, nested)
		}
		if !ok {
			return false
		}
	}
	return true
}

// result converts one transaction's answer, which fits. The reads come first, in order.
func result(txn broker.Txn, answer *pb.TxnResponse, revision broker.Revision) broker.Result {
	r := broker.Result{OK: answer.Succeeded, Revision: revision}
	if bare(txn) {
		return r // the read was added by build
	}
	for _, op := range answer.Responses {
		found := op.GetResponseRange()
		if found == nil {
			break
		}
		if len(found.Kvs) == 0 {
			r.Reads = append(r.Reads, nil)
			continue
		}
		kv := toKV(found.Kvs[0])
		r.Reads = append(r.Reads, &kv)
	}
	return r
}
