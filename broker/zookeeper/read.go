package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// readsMax is how many znodes are read by one request. Each may have a value of
	// broker.ValueBytesMax.
	readsMax = 128
	// requestsMax is how many requests of a walk are under way at once.
	requestsMax = 16
	// pageMax is how many keys a page has.
	pageMax = 1000
	// walksMax bounds how often a listing begins anew because the history that
	// makes it exact was lost.
	walksMax = 5
)

// toZnode makes a znode of what a read returned.
func toZnode(r wire.Result) (znode, error) {
	switch r.Code {
	case wire.CodeOK:
		return znode{there: true, data: r.Data, stat: r.Stat}, nil
	case wire.CodeNoNode:
		return znode{}, nil
	default:
		return znode{}, r.Code
	}
}

// barrier is a request behind which nothing of the past is read on the same connection: a
// transaction, without any change, to which a majority must agree. ZooKeeper's own sync is
// none: a leader that the others have left answers it alone until it notices.
func (l layout) barrier() wire.Request {
	return wire.Multi([]wire.Op{wire.Check(l.chroot+ownDir, wire.AnyVersion)}) // whether it succeeds does not matter
}

// readNow reads znodes, all at the same moment and not from before the call.
func (b *Broker) readNow(ctx context.Context, l *link, reads ...wire.Read) ([]wire.Result, int64, error) {
	answers := l.do(ctx, b.layout.barrier(), wire.MultiRead(reads))
	for _, a := range answers {
		if a.Err != nil {
			return nil, 0, a.Err
		}
	}
	return answers[1].Reply.Results, answers[1].Reply.Zxid, nil
}

// Get implements broker.Broker.
func (b *Broker) Get(ctx context.Context, key string) (broker.KV, error) {
	if err := broker.CheckKey(key); err != nil {
		return broker.KV{}, err
	}
	ctx, leave, err := b.enter(ctx, "get", key)
	if err != nil {
		return broker.KV{}, err
	}
	defer leave()
	kv, err := b.get(ctx, key)
	if err != nil {
		return broker.KV{}, b.readOnly(ctx, "get", key, err)
	}
	if kv == nil {
		return broker.KV{}, broker.NewError("get", key, broker.ErrNotFound, nil)
	}
	return *kv, nil
}

func (b *Broker) get(ctx context.Context, key string) (*broker.KV, error) {
	var kv *broker.KV
	err := b.attempt(ctx, func(ctx context.Context, l *link) error {
		results, _, err := b.readNow(ctx, l, wire.GetData(b.layout.path(key)))
		if err != nil {
			return err
		}
		z, err := toZnode(results[0])
		kv = z.kv(key)
		return err
	})
	return kv, err
}

// attemptsMax bounds how often a read is tried when one connection after the other
// breaks.
const attemptsMax = 5

// attempt calls something that only reads, and again when the connection broke.
func (b *Broker) attempt(ctx context.Context, read func(context.Context, *link) error) error {
	for n := 1; ; n++ {
		l, err := b.linked(ctx)
		if err != nil {
			return err
		}
		if err = read(ctx, l); err == nil || l.conn.Err() == nil || n == attemptsMax {
			return err
		}
	}
}

// List implements broker.Broker. It holds the whole listing in memory.
func (b *Broker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		if err := broker.CheckPrefix(prefix); err != nil {
			yield(broker.Page{}, err)
			return
		}
		ctx, leave, err := b.enter(ctx, "list", prefix)
		if err != nil {
			yield(broker.Page{}, err)
			return
		}
		kvs, revision, err := b.list(ctx, prefix)
		if err != nil {
			err = b.readOnly(ctx, "list", prefix, err)
		}
		leave() // the caller may take its time
		if err != nil {
			yield(broker.Page{}, err)
			return
		}
		for {
			n := min(pageMax, len(kvs))
			if !yield(broker.Page{KVs: kvs[:n:n], Revision: revision}, nil) || n == len(kvs) {
				return
			}
			kvs = kvs[n:]
		}
	}
}

func (b *Broker) list(ctx context.Context, prefix string) (kvs []broker.KV, revision broker.Revision, err error) {
	for range walksMax {
		err = b.attempt(ctx, func(ctx context.Context, l *link) (err error) {
			kvs, revision, err = b.listOnce(ctx, l, prefix)
			return err
		})
		if err == nil || !errors.Is(err, broker.ErrCompacted) {
			return kvs, revision, err
		}
	}
	return nil, 0, err
}

// listOnce walks the subtree, which takes several requests, and brings what they
// found to the moment of the last by the changes that the feed has seen meanwhile.
func (b *Broker) listOnce(ctx context.Context, l *link, prefix string) ([]broker.KV, broker.Revision, error) {
	w, err := b.walk(ctx, l, true, b.layout.path(strings.TrimSuffix(prefix, "/")))
	if err != nil {
		return nil, 0, err
	}
	found := map[string]broker.KV{}
	read := map[string]broker.Revision{}
	for _, n := range w.nodes {
		key, ok := b.layout.key(n.path)
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		if kv := n.kv(key); kv != nil {
			found[key], read[key] = *kv, broker.Revision(n.zxid)
		} else if n.isEmptyDirectory() {
			b.emptied.add(n.path)
		}
	}
	last, err := b.bringUp(ctx, l, prefix, found, read, broker.Revision(w.first), broker.Revision(w.last))
	if err != nil {
		return nil, 0, err
	}
	kvs := slices.SortedFunc(maps.Values(found), func(a, b broker.KV) int { return cmp.Compare(a.Key, b.Key) })
	return kvs, last, nil
}

// bringUp applies what has changed since keys were read, the first of them at first and the
// last at last, and returns up to when, which is later if a value is not to be had otherwise.
func (b *Broker) bringUp(ctx context.Context, l *link, prefix string, found map[string]broker.KV, read map[string]broker.Revision,
	first, last broker.Revision) (broker.Revision, error) {
	f := newFill(b, l)
	for range fillsMax {
		v, err := l.feed.until(ctx, last, first+1)
		if err != nil {
			return 0, err
		}
		if v.floor > first {
			break
		}
		wanted := apply(v, prefix, last, found, read)
		if len(wanted) == 0 {
			return last, nil
		}
		if last, err = f.read(ctx, wanted, last); err != nil {
			return 0, err
		}
		for key, r := range f.reads {
			if read[key] = r.at; r.kv == nil {
				delete(found, key)
			} else {
				found[key] = *r.kv
			}
		}
	}
	return 0, broker.NewError("list", prefix, broker.ErrCompacted, nil)
}

// apply applies changes up to a revision to keys that were found, each later than it was
// read, and returns the keys whose value is then not known, with when they were put.
func apply(v view, prefix string, upTo broker.Revision, found map[string]broker.KV, read map[string]broker.Revision) map[string]broker.Revision {
	wanted := map[string]broker.Revision{}
	for _, e := range v.entries {
		if e.revision > upTo {
			break
		}
		for _, event := range e.events {
			key := event.KV.Key
			if !strings.HasPrefix(key, prefix) || e.revision <= read[key] {
				continue
			}
			delete(wanted, key)
			if event.Deleted {
				delete(found, key)
				continue
			}
			found[key] = event.KV
			if event.long > 0 {
				wanted[key] = e.revision
			}
		}
	}
	return wanted
}

// walked is a znode found by a walk.
type walked struct {
	znode
	path string
	// root is the one it was found below, or is.
	root string
	// zxid is when it was read.
	zxid int64
}

// walk is a look at a subtree. Its parts were read one after the other, the first
// at first and the last at last.
type walk struct {
	// nodes come with parents before their children. The root is among them.
	nodes       []walked
	first, last int64
}

// walk reads the subtrees below and at some paths, level by level.
func (b *Broker) walk(ctx context.Context, l *link, now bool, roots ...string) (walk, error) {
	var w walk
	rootOf := map[string]string{}
	for _, root := range roots {
		rootOf[root] = root
	}
	if now {
		if err := l.do(ctx, b.layout.barrier())[0].Err; err != nil {
			return w, err
		}
	}
	level := roots
	for len(level) > 0 {
		var parents []string
		err := w.readAll(ctx, l, level, wire.GetData, func(path string, r wire.Result, zxid int64) error {
			z, err := toZnode(r)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if z.there {
				w.nodes = append(w.nodes, walked{znode: z, path: path, root: rootOf[path], zxid: zxid})
			}
			if z.stat.NumChildren > 0 {
				parents = append(parents, path)
			}
			return nil
		})
		if err != nil {
			return w, err
		}
		level = nil
		err = w.readAll(ctx, l, parents, wire.GetChildren, func(path string, r wire.Result, _ int64) error {
			for _, name := range r.Children {
				if child := path + "/" + name; !b.layout.isOurs(child) {
					level = append(level, child)
					rootOf[child] = rootOf[path]
				}
			}
			if r.Code == wire.CodeNoNode {
				return nil
			}
			return orNil(r.Code)
		})
		if err != nil {
			return w, err
		}
	}
	return w, nil
}

// orNil makes an error of a code.
func orNil(code wire.Code) error {
	if code == wire.CodeOK {
		return nil
	}
	return code
}

// readAll reads paths, many to a request and several requests at once.
func (w *walk) readAll(ctx context.Context, l *link, paths []string, read func(string) wire.Read,
	take func(path string, r wire.Result, zxid int64) error) error {
	for group := range slices.Chunk(slices.Collect(slices.Chunk(paths, readsMax)), requestsMax) {
		var requests []wire.Request
		for _, chunk := range group {
			reads := make([]wire.Read, len(chunk))
			for i, path := range chunk {
				reads[i] = read(path)
			}
			requests = append(requests, wire.MultiRead(reads))
		}
		for i, a := range l.do(ctx, requests...) {
			if a.Err != nil {
				return a.Err
			}
			if w.first == 0 {
				w.first = a.Reply.Zxid
			}
			w.last = a.Reply.Zxid
			for n, result := range a.Reply.Results {
				if err := take(group[i][n], result, a.Reply.Zxid); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
