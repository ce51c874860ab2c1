package zookeeper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// sight is what was read to decide a transaction.
type sight struct {
	// znodes are those of its keys, by path. All were read at one moment.
	znodes map[string]znode
	// epochs are the versions of its epochs, by path.
	epochs map[string]int32
	// trees are the subtrees to delete, by the path they are below; parents come
	// before children. They were read later, each znode at its own moment.
	trees map[string][]walked
	zxid  int64
}

// plan is a transaction decided: what to send so that it is applied if, and only
// if, all that the decision rests on still holds.
//
// ZooKeeper compares versions, and a znode that was deleted and created again may
// have the version it had. So each creation of a key counts up one of the epochs,
// which one is a matter of the key's hash; a key whose epoch and version are the
// same as before is the same key. An absent key is one that was not created since.
type plan struct {
	layout layout
	acls   []wire.ACL
	sight  sight

	// refused tells that a condition failed.
	refused bool
	reads   []*broker.KV
	// session is the one whose connection has to send the plan, zero for none.
	session broker.SessionID
	// prepare are puts with further sessions, whose znodes have to be created
	// first, each on its own session's connection.
	prepare []broker.Op

	// checks are versions that must be as they were; AnyVersion is that the znode
	// must exist.
	checks map[string]int32
	// epochs are those that matter, each with the paths for which it does; bump are
	// those that are counted up.
	epochs  map[string]map[string]bool
	bump    map[string]bool
	deletes []wire.Op
	writes  []wire.Op
	record  record
	// settled are the znodes of prefixes that deleteTree has dealt with.
	settled map[string]bool
	// guarded are the versions that a delete or a write compares itself, by path.
	guarded map[string]int32
	// creates are the new znodes by their paths.
	creates map[string]wire.Op
}

// decide makes the plan of a transaction.
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
	for _, op := range branch { // first, because they settle the prefix's own znode
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

// The operations of a plan.

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

// writing tells whether there is anything to send.
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

// require makes the plan depend on a key being as it was: there in the version, or
// not there at all.
func (p *plan) require(key string, version int32) {
	path := p.layout.path(key)
	p.keep(p.layout.keyEpoch(key), path)
	if z := p.sight.znodes[path]; z.there {
		p.check(path, version)
	}
}

// keep makes the plan depend on an epoch, for the sake of a znode.
func (p *plan) keep(epoch, path string) {
	if p.epochs[epoch] == nil {
		p.epochs[epoch] = map[string]bool{}
	}
	p.epochs[epoch][path] = true
}

// isKept tells whether an epoch has to be as it was. For the sake of a znode that was
// missing and is created it need not be: creating it fails if it is there.
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
	p.record.changes = append(p.record.changes, c)
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
		return broker.NewError("commit", op.Key, broker.ErrInvalid, fmt.Errorf("a key of a session is put above existing keys"))
	case op.Session != p.session && op.Session != 0:
		return broker.NewError("commit", op.Key, broker.ErrInvalid, errOtherSession(op))
	default:
		if old != nil {
			h.created = int64(old.Created)
		}
		p.require(op.Key, z.stat.Version) // when it was created is from the look
		p.bump[p.layout.keyEpoch(op.Key)] = true
		p.remove(path, z.stat.Version)
		p.create(path, encode(op.Value, h), op.Session)
		c.events = 2
	}
	p.note(c)
	return nil
}

// useSession settles on whose connection sends the plan. Only the first session of a
// transaction can create znodes by it; those of the others must be there.
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
	if z.kv(key) == nil {
		p.require(key, z.stat.Version)
		return
	}
	p.require(key, z.stat.Version)
	parent := z.stat.NumChildren > 0 || slices.ContainsFunc(branch, func(op broker.Op) bool {
		return op.Kind == broker.OpPut && strings.HasPrefix(op.Key, key+"/")
	})
	if !parent {
		p.remove(path, z.stat.Version)
	} else {
		// The epoch tells those that only look whether the key is there.
		p.bump[p.layout.keyEpoch(key)] = true
		p.set(path, directory, z.stat.Version)
	}
	p.note(change{kind: changeDelete, events: 1, path: path})
}

// deleteTree deletes every znode below a prefix, directories included: one that has
// got a child meanwhile cannot be deleted, so that nothing is left out. For the same
// reason the prefix's own znode is deleted, and made anew if it is a key.
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
			p.keep(p.layout.keyEpoch(k), n.path) // whether it is a key the record must tell
		}
		p.note(c)
	}
	p.remove(root, z.stat.Version)
	return p.restore(key, root, z, branch)
}

// restore makes the znode of a prefix anew after its subtree was deleted, unless the
// transaction deletes it, or puts something else there.
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
			return broker.NewError("commit", op.Key, broker.ErrInvalid, errOtherSession(op))
		}
		value, session, h.modified = op.Value, op.Session, 0
		c.kind, c.created, c.session, c.value = changePut, broker.Revision(h.created), session, value
	}
	p.create(root, encode(value, h), session)
	p.note(c)
	return nil
}

// errOtherSession is for a znode that only the connection of another session could make
// anew.
func errOtherSession(op broker.Op) error {
	return fmt.Errorf("the key would change to session %x in a transaction of another session", uint64(op.Session))
}

// ops makes the operations of the plan, with the record in a slot.
func (p *plan) ops(slot string, record []byte) []wire.Op {
	ops := []wire.Op{wire.SetData(slot, record, wire.AnyVersion)}
	for path, version := range p.checks {
		// A subtree is read after the keys that the conditions are about, so that what is
		// deleted below it may have another version.
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

// orphans are the new znodes whose parents have to be there.
func (p *plan) orphans() []string {
	var all []string
	for path := range p.creates {
		if _, together := p.creates[parent(path)]; !together {
			all = append(all, path)
		}
	}
	return all
}

// isBlocked tells whether a new znode is among some paths.
func (p *plan) isBlocked(blocked map[string]bool) bool {
	for path := range p.creates {
		if blocked[path] {
			return true
		}
	}
	return false
}

// reading lists what has to be read to decide a transaction.
type reading struct {
	// paths are those of keys, epochs those of epochs, trees those whose children
	// matter.
	paths, epochs, trees map[string]bool
}

func newReading() *reading {
	return &reading{paths: map[string]bool{}, epochs: map[string]bool{}, trees: map[string]bool{}}
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
