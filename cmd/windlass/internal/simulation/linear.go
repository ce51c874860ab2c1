package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/windlass-go/windlass/broker"
)

// register is the state of the claim of one task: whether the task exists, its owner,
// and the claim that completed it.
type register struct {
	exists  bool
	created broker.Revision
	owner   broker.Revision
	last    broker.Revision
	endedBy broker.Revision
}

// model defines which answers are correct in each state of a task's register.
var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		next, ok := state.(register).step(input.(operation))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
}

func (r register) step(op operation) (register, bool) {
	holds := r.owner == op.token && op.token != 0
	switch op.kind {
	case opCreated:
		ok := !r.exists
		r.exists, r.created = true, op.token
		return r, ok
	case opClaim:
		ok := r.exists && r.owner == 0 && op.token > r.last
		r.owner, r.last = op.token, op.token
		return r, ok
	case opHeld, opSave:
		return r, holds
	case opGone:
		return r, !r.exists || op.token != 0 && op.token != r.created
	case opFenced:
		return r, !holds
	case opRelease:
		if holds {
			r.owner = 0
			return r, true
		}
		return r, op.again
	case opDone:
		if holds && r.exists {
			return register{last: r.last, endedBy: op.token}, true
		}
		return r, op.again && r.endedBy == op.token
	case opLost:
		if holds {
			r.owner = 0
		}
		return r, true
	case opVanished:
		ok := r.exists && (op.token == 0 || holds)
		r.exists = false
		if op.token != 0 {
			r.owner, r.endedBy = 0, op.token
		}
		return r, ok
	}
	return r, false
}

// linearizable checks the operations of each task, and returns the violations.
// undecided counts the tasks whose check took too long.
func (o *operations) linearizable(limit time.Duration) (wrong []string, undecided int) {
	for _, id := range slices.Sorted(maps.Keys(o.byTask)) {
		history := make([]porcupine.Operation, 0, len(o.byTask[id]))
		for _, op := range o.byTask[id] {
			history = append(history, porcupine.Operation{Input: op, Call: op.call, Return: op.ret})
		}
		switch porcupine.CheckOperationsTimeout(model, history, limit) {
		case porcupine.Illegal:
			wrong = append(wrong, fmt.Sprintf("the answers about the claims of %q cannot be put in an order: %s", id, o.describe(id)))
		case porcupine.Unknown:
			undecided++
		}
	}
	return wrong, undecided
}

// describe prints the operations of a task in the order of their answers.
func (o *operations) describe(id string) string {
	ops := slices.Clone(o.byTask[id])
	slices.SortFunc(ops, func(a, b operation) int { return int(a.ret - b.ret) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "\n\t%v", op)
	}
	return b.String()
}

var kindNames = map[kind]string{
	opClaim: "claim", opHeld: "held", opGone: "gone", opSave: "save", opRelease: "release", opDone: "done",
	opFenced: "fenced", opCreated: "created", opLost: "lost", opVanished: "vanished",
}

// String describes the operation in a failing test.
func (op operation) String() string {
	text := fmt.Sprintf("%d-%d %s(%d)", op.call, op.ret, kindNames[op.kind], op.token)
	if op.again {
		text += " again"
	}
	return text
}
