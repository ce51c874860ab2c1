package zookeeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// sight is the data that transactions are decided from.
type sight struct {
	// znodes are those of the keys, by path, all read at one revision.
	znodes map[string]znode
	// epochs are the versions of the epochs, by path.
	epochs map[string]int32
	// trees are the subtrees to delete, by the paths of their roots; parents come before
	// children. They were read later, each znode at its own revision.
	trees map[string][]walked
	zxid  int64
}

// plan is the request to send for a transaction. The servers apply it only if everything
// that the decision depends on still holds.
//
// ZooKeeper compares versions, and a znode that was deleted and created again may
// have the version it had. So each creation of a key increments an epoch, which the key's
// hash selects; a key whose epoch and version are the same as before is the same key. A key
// that was absent still is if its epoch is the same.
type plan struct {
	layout layout
	acls   []wire.ACL
	sight  sight

	// refused is set if a condition failed.
	refused bool
	reads   []*broker.KV
	// session is the session whose connection must send the plan, zero for none.
	session broker.SessionID
	// prepare are puts with further sessions, whose znodes must be created first, each on
	// its own session's connection.
	prepare []broker.Op

	// checks are the versions that znodes must still have, by path; with AnyVersion a
	// znode need only exist.
	checks map[string]int32
	// epochs are the epochs to check, each with the paths that need it; bump are those to
	// increment.
	epochs  map[string]map[string]bool
	bump    map[string]bool
	deletes []wire.Op
	writes  []wire.Op
	record  record
	// settled are the znodes of prefixes that deleteTree has handled.
	settled map[string]bool
	// guarded are the versions that a delete or a write itself checks, by path.
	guarded map[string]int32
	// creates are the new znodes by their paths.
	creates map[string]wire.Op
}

// decide returns the plan of a transaction.
func decide(l layout, acls []wire.ACL, txn broker.Txn, s sight) (*plan, error) {
	p := &plan{layout: l, acls: acls, sight: s, checks: map[string]int32{}, epochs: map[string]map[string]bool{}, bump: map[string]bool{},
		settled: map[string]bool{}, guarded: map[string]int32{}, creates: map[string]wire.Op{}}
	for _, c := range txn.If {
		if !p.holds(c) {
			p.refused = true
		}
	}
	branch := txn.Then
	if p.refused {
		branch = txn.Else
	}
	for _, op := range branch {
		if op.Kind == broker.OpRead {
			z := p.znode(op.Key)
			p.reads = append(p.reads, z.kv(op.Key))
			p.require(op.Key, z.stat.Version)
		}
	}
	for _, op := range branch { // before the others, because they settle the prefix's own znode
		if op.Kind == broker.OpDeleteTree {
			if err := p.deleteTree(op.Key, branch); err != nil {
				return nil, err
			}
		}
	}
	for _, op := range branch {
		switch {
		case op.Kind == broker.OpDeleteTree, p.settled[p.layout.path(op.Key)]:
		case op.Kind == broker.OpDelete:
			p.delete(op.Key, branch)
		case op.Kind == broker.OpPut:
			if err := p.put(op); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *plan) create(path string, data []byte, session broker.SessionID) {
	mode := wire.Persistent
	if session != 0 {
		mode = wire.Ephemeral
	}
	p.creates[path] = wire.Create(path, data, mode, p.acls)
}

func (p *plan) set(path string, data []byte, version int32) {
	p.guarded[path] = version
	p.writes = append(p.writes, wire.SetData(path, data, version))
}

func (p *plan) remove(path string, version int32) {
	p.guarded[path] = version
	p.deletes = append(p.deletes, wire.Delete(path, version))
}

// writing reports whether there is anything to send.
func (p *plan) writing() bool { return len(p.deletes)+len(p.writes)+len(p.creates) > 0 }

func (p *plan) znode(key string) znode { return p.sight.znodes[p.layout.path(key)] }

func (p *plan) holds(c broker.Cond) bool {
	z := p.znode(c.Key)
	kv := z.kv(c.Key)
	version := int32(wire.AnyVersion)
	if c.Kind == broker.CondModified {
		version = z.stat.Version
	}
	p.require(c.Key, version)
	switch c.Kind {
	case broker.CondExists:
		return kv != nil
	case broker.CondAbsent:
		return kv == nil
	case broker.CondCreated:
		return kv != nil && kv.Created == c.Revision
	default:
		return kv != nil && kv.Modified == c.Revision
	}
}

// require makes the plan depend on a key: on its version, or on its absence.
func (p *plan) require(key string, version int32) {
	path := p.layout.path(key)
	p.keep(p.layout.keyEpoch(key), path)
	if p.sight.znodes[path].there {
		p.check(path, version)
	}
}

// keep makes the plan depend on an epoch, because of a znode.
func (p *plan) keep(epoch, path string) {
	if p.epochs[epoch] == nil {
		p.epochs[epoch] = map[string]bool{}
	}
	p.epochs[epoch][path] = true
}

// isKept reports whether an epoch must not have changed. A znode that was missing and is
// created does not need it: creating it fails if it exists.
func (p *plan) isKept(epoch string) bool {
	for path := range p.epochs[epoch] {
		if _, created := p.creates[path]; !created || p.sight.znodes[path].there {
			return true
		}
	}
	return false
}

func (p *plan) check(path string, version int32) {
	if old, ok := p.checks[path]; !ok || old == wire.AnyVersion {
		p.checks[path] = version
	}
}

// note adds a change to the record.
func (p *plan) note(c change) {
	c.path = strings.TrimPrefix(c.path, p.layout.chroot)
	p.record = append(p.record, c)
}

func (p *plan) put(op broker.Op) error {
	path := p.layout.path(op.Key)
	z := p.sight.znodes[path]
	old := z.kv(op.Key)
	var h header
	c := change{kind: changePut, events: 1, path: path, session: op.Session, value: op.Value}
	if old != nil {
		c.created = old.Created
	} else {
		p.bump[p.layout.keyEpoch(op.Key)] = true
	}
	owner := broker.SessionID(z.stat.EphemeralOwner)
	p.useSession(op, z.there && owner == op.Session)
	switch {
	case !z.there:
		p.create(path, encode(op.Value, h), op.Session)
	case owner == op.Session:
		h.created = createdNow
		p.keep(p.layout.keyEpoch(op.Key), path)
		if old != nil {
			h.created = 0
			if int64(old.Created) != z.stat.Czxid {
				h.created = int64(old.Created)
			}
			p.require(op.Key, z.stat.Version)
		}
		p.set(path, encode(op.Value, h), z.stat.Version)
	case z.stat.NumChildren > 0:
		return broker.NewError("commit", op.Key, broker.ErrInvalid, errors.New("a key of a session is put above existing keys"))
	case op.Session != p.session && op.Session != 0:
		return otherSessionError(op)
	default:
		if old != nil {
			h.created = int64(old.Created)
		}
		p.require(op.Key, z.stat.Version) // because its creation revision is written again
		p.bump[p.layout.keyEpoch(op.Key)] = true
		p.remove(path, z.stat.Version)
		p.create(path, encode(op.Value, h), op.Session)
		c.events = 2
	}
	p.note(c)
	return nil
}

// useSession chooses the session whose connection sends the plan, the first one. Only that
// one can create znodes by the plan; those of the other sessions must exist.
func (p *plan) useSession(op broker.Op, there bool) {
	switch {
	case op.Session == 0 || op.Session == p.session:
	case p.session == 0:
		p.session = op.Session
	case !there:
		p.prepare = append(p.prepare, op)
	}
}

func (p *plan) delete(key string, branch []broker.Op) {
	path := p.layout.path(key)
	z := p.sight.znodes[path]
	p.require(key, z.stat.Version)
	if z.kv(key) == nil {
		return
	}
	parent := z.stat.NumChildren > 0 || slices.ContainsFunc(branch, func(op broker.Op) bool {
		return op.Kind == broker.OpPut && strings.HasPrefix(op.Key, key+"/")
	})
	if !parent {
		p.remove(path, z.stat.Version)
	} else {
		// The new epoch makes transactions fail that only require the key to exist.
		p.bump[p.layout.keyEpoch(key)] = true
		p.set(path, directory, z.stat.Version)
	}
	p.note(change{kind: changeDelete, events: 1, path: path})
}

// deleteTree deletes every znode below a prefix, directories included: one that has a new
// child cannot be deleted, so that no key is left out. For the same reason the prefix's own
// znode is deleted, and created again if it is a key.
func (p *plan) deleteTree(prefix string, branch []broker.Op) error {
	key := strings.TrimSuffix(prefix, "/")
	root := p.layout.path(key)
	z := p.sight.znodes[root]
	p.keep(p.layout.keyEpoch(key), root)
	if !z.there {
		p.keep(p.layout.dirEpoch(root), root)
		return nil
	}
	if z.stat.EphemeralOwner != 0 { // has no children
		p.check(root, wire.AnyVersion)
		return nil
	}
	p.settled[root] = true
	tree := p.sight.trees[root]
	for i := len(tree) - 1; i >= 0; i-- {
		n := tree[i]
		if n.path == root {
			continue
		}
		p.remove(n.path, n.stat.Version)
		c := change{kind: changeQuiet, events: 1, path: n.path}
		if k, ok := p.layout.key(n.path); ok && n.kv(k) != nil {
			c.kind = changeDelete
		} else if ok {
			p.keep(p.layout.keyEpoch(k), n.path) // the record depends on whether it is a key
		}
		p.note(c)
	}
	p.remove(root, z.stat.Version)
	return p.restore(key, root, z, branch)
}

// restore creates the znode of a prefix again after its subtree was deleted, with the value
// that the transaction puts there, if any. It does not if the transaction deletes the key.
func (p *plan) restore(key, root string, z znode, branch []broker.Op) error {
	old := z.kv(key)
	i := slices.IndexFunc(branch, func(op broker.Op) bool {
		return (op.Kind == broker.OpPut || op.Kind == broker.OpDelete) && op.Key == key
	})
	switch {
	case old == nil && (i < 0 || branch[i].Kind == broker.OpDelete):
		p.note(change{kind: changeQuiet, events: 1, path: root})
		return nil
	case i >= 0 && branch[i].Kind == broker.OpDelete:
		p.note(change{kind: changeDelete, events: 1, path: root})
		return nil
	}
	p.bump[p.layout.keyEpoch(key)] = true
	c := change{kind: changeQuiet, events: 2, path: root}
	h := header{}
	var value []byte
	var session broker.SessionID
	if old != nil {
		value, h.created, h.modified = old.Value, int64(old.Created), int64(old.Modified)
	}
	if i >= 0 {
		op := branch[i]
		p.useSession(op, true)
		if op.Session != 0 && op.Session != p.session {
			return otherSessionError(op)
		}
		value, session, h.modified = op.Value, op.Session, 0
		c.kind, c.created, c.session, c.value = changePut, broker.Revision(h.created), session, value
	}
	p.create(root, encode(value, h), session)
	p.note(c)
	return nil
}

// otherSessionError is the error if only the connection of another session could create a
// znode again.
func otherSessionError(op broker.Op) error {
	return broker.NewError("commit", op.Key, broker.ErrInvalid,
		fmt.Errorf("the key would change to session %x in a transaction of another session", uint64(op.Session)))
}

// ops returns the operations of the plan, after the one that writes its record.
func (p *plan) ops(writeRecord wire.Op) []wire.Op {
	ops := []wire.Op{writeRecord}
	for path, version := range p.checks {
		// A subtree is read after the keys of the conditions, so that a delete in it may
		// check another version.
		if guard, ok := p.guarded[path]; !ok || version != wire.AnyVersion && version != guard {
			ops = append(ops, wire.Check(path, version))
		}
	}
	for path := range p.epochs {
		if !p.bump[path] && p.isKept(path) {
			ops = append(ops, wire.Check(path, p.sight.epochs[path]))
		}
	}
	for path := range p.bump {
		version := int32(wire.AnyVersion)
		if p.isKept(path) {
			version = p.sight.epochs[path]
		}
		ops = append(ops, wire.SetData(path, nil, version))
	}
	ops = slices.Concat(ops, p.deletes, p.writes)
	for _, path := range slices.Sorted(maps.Keys(p.creates)) { // parents before their children
		ops = append(ops, p.creates[path])
	}
	return ops
}

// orphans returns the new znodes whose parents must already exist.
func (p *plan) orphans() []string {
	var all []string
	for path := range p.creates {
		if _, together := p.creates[parent(path)]; !together {
			all = append(all, path)
		}
	}
	return all
}

// isBlocked reports whether a new znode is among the blocked paths.
func (p *plan) isBlocked(blocked map[string]bool) bool {
	for path := range p.creates {
		if blocked[path] {
			return true
		}
	}
	return false
}

// reading lists the paths to read to decide transactions: those of keys, of epochs, and of
// the subtrees to delete.
type reading struct {
	paths, epochs, trees map[string]bool
}

func (r *reading) add(l layout, txn broker.Txn) {
	key := func(key string) {
		r.paths[l.path(key)] = true
		r.epochs[l.keyEpoch(key)] = true
	}
	for _, c := range txn.If {
		key(c.Key)
	}
	for _, branch := range [][]broker.Op{txn.Then, txn.Else} {
		for _, op := range branch {
			if op.Kind != broker.OpDeleteTree {
				key(op.Key)
				continue
			}
			above := strings.TrimSuffix(op.Key, "/")
			key(above)
			r.trees[l.path(above)] = true
			r.epochs[l.dirEpoch(l.path(above))] = true
		}
	}
}
