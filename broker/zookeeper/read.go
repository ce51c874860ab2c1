package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// readsMax is how many znodes are read by one request. Each may have a value of
	// broker.ValueBytesMax.
	readsMax = 128
	// requestsMax is how many requests of a walk are under way at once.
	requestsMax = 16
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
