package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// readsMax limits the znodes read by one request. Each may have a value of
	// broker.ValueBytesMax.
	readsMax = 128
	// requestsMax limits the concurrent requests of a walk.
	requestsMax = 16
)

// toZnode converts the result of a read. A znode that does not exist is no error.
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

// readZnode reads a znode, as the connected server knows it.
func readZnode(ctx context.Context, conn *wire.Conn, path string) (znode, error) {
	reply, err := conn.Do(ctx, wire.MultiRead([]wire.Read{wire.GetData(path)}))
	if err != nil {
		return znode{}, err
	}
	return toZnode(reply.Results[0])
}

// barrier returns a request after which reads on the same connection are not stale: a
// transaction without changes to which a majority must agree. ZooKeeper's own sync does not
// suffice: a leader that the others have left answers it alone until it notices.
func (l layout) barrier() wire.Request {
	return wire.Multi([]wire.Op{wire.Check(l.chroot+ownDir, wire.AnyVersion)}) // whether it succeeds does not matter
}

// readNow reads znodes, all at one revision that is not older than the call.
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
	z, err := b.get(ctx, b.layout.path(key))
	if err != nil {
		return broker.KV{}, b.readOnly(ctx, "get", key, err)
	}
	kv := z.kv(key)
	if kv == nil {
		return broker.KV{}, broker.NewError("get", key, broker.ErrNotFound, nil)
	}
	return *kv, nil
}

// get reads a znode as it is now.
func (b *Broker) get(ctx context.Context, path string) (z znode, err error) {
	err = b.attempt(ctx, func(ctx context.Context, l *link) error {
		results, _, err := b.readNow(ctx, l, wire.GetData(path))
		if err == nil {
			z, err = toZnode(results[0])
		}
		return err
	})
	return z, err
}

// attemptsMax limits how often a read is tried while one connection after the other
// breaks.
const attemptsMax = 5

// attempt calls a function that only reads, and again if the connection broke.
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

// walked is a znode found by a walk.
type walked struct {
	znode
	path string
	// root is the root of its walk, possibly itself.
	root string
	// zxid is the transaction as of which it was read.
	zxid int64
}

// walk is the result of reading a subtree. Its parts were read one after the other, as of
// the transactions from first to last.
type walk struct {
	// nodes are the znodes, the root included, with parents before their children.
	nodes       []walked
	first, last int64
}

// walk reads the subtrees at some paths, level by level, behind a barrier if now is set.
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
			_, err := toZnode(r)
			return err
		})
		if err != nil {
			return w, err
		}
	}
	return w, nil
}

// readAll reads paths, many by each request and several requests at once, and passes each
// result to take.
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
