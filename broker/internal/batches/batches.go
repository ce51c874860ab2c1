package batches

import (
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// Divide divides transactions into rounds. Those of one round have no key in
// common, other than keys that all of them only look at, so that they may be
// applied in any order or all at once. A transaction is in a later round than
// every earlier one it has a key in common with, so that it sees what that one
// did.
//
// It is a readers-and-writers schedule: each key, and each prefix of a subtree
// delete, is a resource that a transaction either shares or has to itself. A
// subtree delete has its prefix to itself, and whatever is below that prefix
// shares it.
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

// resourcesUsual is how many resources a transaction needs, about: the map is not to grow
// again and again.
const resourcesUsual = 6

// use is the number of rounds after which a resource is free again: for one that
// wants to share it, and for one that wants it to itself.
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

// place returns the first round in which a transaction can go, and reserves
// what it needs.
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

// resources calls visit for all that a transaction needs, and whether it needs
// it alone. A name may come more than once.
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

// KeyOf is the key to name in an error about a transaction.
func KeyOf(txn broker.Txn) string {
	for _, op := range txn.Then {
		if op.Kind != broker.OpRead {
			return op.Key
		}
	}
	if len(txn.Then) > 0 {
		return txn.Then[0].Key
	}
	if len(txn.If) > 0 {
		return txn.If[0].Key
	}
	return ""
}
