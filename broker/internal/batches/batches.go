package batches

import (
	"errors"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// ErrNotSent is the cause for a transaction that shares a key with an earlier one whose
// outcome is unknown: if sent, it could overtake that one.
var ErrNotSent = errors.New("not sent, because an earlier transaction of this call has an unknown outcome")

// Commit validates transactions and passes one round of them after the other to send, which
// sets their results. After a round with an unknown outcome the others are not sent.
func Commit(txns []broker.Txn, results []broker.Result, send func(round []int)) {
	pending := make([]int, 0, len(txns))
	for i, txn := range txns {
		if results[i].Err = txn.Validate(); results[i].Err == nil {
			pending = append(pending, i)
		}
	}
	unknown := false
	for _, round := range Divide(txns, pending) {
		if !unknown {
			send(round)
			unknown = slices.ContainsFunc(round, func(i int) bool { return broker.MaybeApplied(results[i].Err) })
			continue
		}
		for _, i := range round {
			results[i].Err = broker.NewError("commit", KeyOf(txns[i]), broker.ErrUnavailable, ErrNotSent)
		}
	}
}

// Divide divides transactions into rounds. Those of one round have no key in common, other
// than keys that all of them only read, so that they may be applied in any order or all at
// once. A transaction is in a later round than every earlier one with which it has a key in
// common, so that it sees the effect of that one.
//
// It is a readers-and-writers schedule: each key, and each prefix of a subtree delete, is a
// resource that a transaction uses shared or exclusively. A subtree delete uses its prefix
// exclusively, and operations below that prefix share it.
func Divide(txns []broker.Txn, pending []int) [][]int {
	s := schedule{used: make(map[string]use, resourcesUsual*len(pending)), trees: treePrefixes(txns, pending)}
	var rounds [][]int
	for _, i := range pending {
		round := s.place(txns[i])
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], i)
	}
	return rounds
}

// resourcesUsual is about how many resources a transaction needs, so that the map need not
// grow.
const resourcesUsual = 6

// use is the number of rounds after which a resource is free again: for shared and for
// exclusive use.
type use struct {
	freeToShare int
	free        int // at least freeToShare
}

type schedule struct {
	used  map[string]use
	trees map[string]bool
}

func treePrefixes(txns []broker.Txn, pending []int) map[string]bool {
	trees := map[string]bool{}
	for _, i := range pending {
		for _, op := range txns[i].Then {
			if op.Kind == broker.OpDeleteTree {
				trees[op.Key] = true
			}
		}
	}
	return trees
}

// place returns the first round in which a transaction can be, and reserves its resources.
func (s *schedule) place(txn broker.Txn) int {
	round := 0
	s.resources(txn, func(name string, alone bool) {
		if alone {
			round = max(round, s.used[name].free)
		} else {
			round = max(round, s.used[name].freeToShare)
		}
	})
	s.resources(txn, func(name string, alone bool) {
		u := s.used[name]
		u.free = max(u.free, round+1)
		if alone {
			u.freeToShare = round + 1
		}
		s.used[name] = u
	})
	return round
}

// resources calls visit for each resource of a transaction, some more than once.
func (s *schedule) resources(txn broker.Txn, visit func(name string, alone bool)) {
	for _, c := range txn.If {
		s.key(c.Key, false, visit)
	}
	for _, branch := range [][]broker.Op{txn.Then, txn.Else} {
		for _, op := range branch {
			s.key(op.Key, op.Kind != broker.OpRead, visit)
		}
	}
}

// key visits a key or prefix, and the prefixes of subtree deletes above it.
func (s *schedule) key(key string, alone bool, visit func(string, bool)) {
	visit(key, alone)
	if len(s.trees) == 0 {
		return
	}
	for end := len(key) - 1; end > 0; {
		slash := strings.LastIndexByte(key[:end], '/')
		if slash < 0 {
			return
		}
		if above := key[:slash+1]; s.trees[above] {
			visit(above, false)
		}
		end = slash
	}
}

// KeyOf returns the key to name in an error about a transaction.
func KeyOf(txn broker.Txn) string {
	if i := slices.IndexFunc(txn.Then, func(op broker.Op) bool { return op.Kind != broker.OpRead }); i >= 0 {
		return txn.Then[i].Key
	}
	if len(txn.Then) > 0 {
		return txn.Then[0].Key
	}
	if len(txn.If) > 0 {
		return txn.If[0].Key
	}
	return ""
}
