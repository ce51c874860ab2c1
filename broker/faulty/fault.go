package faulty

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Ops is a set of operations.
type Ops uint16

// The operations of a broker. OpBatch is each batch that a watch is about to deliver;
// OpWatch is the beginning of the watch.
const (
	OpGet Ops = 1 << iota
	OpList
	OpCommit
	OpWatch
	OpBatch
	OpGrant
	OpKeepAlive
	OpRevoke

	opReads  = OpGet | OpList
	opWrites = OpCommit | OpGrant | OpKeepAlive | OpRevoke
	opWatch  = OpWatch | OpBatch
	opAll    = opReads | opWrites | opWatch
)

var opNames = []string{"get", "list", "commit", "watch", "batch", "grant", "keepalive", "revoke"}

// String returns the names of the operations, separated by commas, in the order of the
// constants.
func (o Ops) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// method returns the name of an operation's method, for errors.
func (o Ops) method() string {
	if o == OpBatch {
		o = OpWatch
	}
	return opNames[bits.TrailingZeros16(uint16(o))]
}

func parseOps(s string) (Ops, error) {
	var ops Ops
	for name := range strings.SplitSeq(s, ",") {
		i := slices.Index(opNames, name)
		if i < 0 {
			return 0, fmt.Errorf("operation %q is unknown; there are %s", name, strings.Join(opNames, ", "))
		}
		ops |= 1 << i
	}
	return ops, nil
}

// Fault is a kind of fault.
type Fault uint8

// The faults. If a fault takes a duration, its comment says what the duration means.
const (
	// DelayRequest holds a request back for the duration.
	DelayRequest Fault = iota + 1
	// DelayReply holds a reply back for the duration.
	DelayReply
	// LoseRequest drops a request; the error comes after the duration.
	LoseRequest
	// LoseReply passes a request on and drops the reply; the error comes after
	// the duration.
	LoseReply
	// Late reports an error at once and passes the request on after the
	// duration, during which anything else may be applied.
	Late
	// Refuse fails a call at once, like a call that was never sent.
	Refuse
	// Forbid fails a call at once with ErrPermission, like a call of a user without the
	// right.
	Forbid
	// Stall holds a request back until Thaw.
	Stall
	// Break ends a watch with ErrUnavailable.
	Break
	// Compact ends a watch or a listing with ErrCompacted.
	Compact
	// Reorder sends each transaction of a commit as a request of its own, in a random
	// order, the duration apart. Those that share a key keep their order, as broker.Commit
	// promises.
	Reorder
)

// traits are the properties of a fault.
type traits struct {
	name string
	// ops are the operations that it can affect.
	ops Ops
	// duration reports whether it takes one.
	duration bool
}

var faults = map[Fault]traits{
	DelayRequest: {"delay-request", opAll, true},
	DelayReply:   {"delay-reply", opAll, true},
	LoseRequest:  {"lose-request", opReads | opWrites, true},
	LoseReply:    {"lose-reply", opReads | opWrites, true},
	Late:         {"late", opWrites, true},
	Refuse:       {"refuse", opReads | opWrites | OpWatch, false},
	Forbid:       {"forbid", opReads | opWrites | OpWatch, false},
	Stall:        {"stall", opAll, false},
	Break:        {"break", opWatch, false},
	Compact:      {"compact", opWatch | OpList, false},
	Reorder:      {"reorder", OpCommit, true},
}

// String returns the fault's name in a plan.
func (f Fault) String() string {
	if t, ok := faults[f]; ok {
		return t.name
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

func parseFault(name string) (Fault, error) {
	for f, t := range faults {
		if t.name == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("fault %q is unknown", name)
}
