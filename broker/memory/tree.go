package memory

import (
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// node is one segment of the paths. Keys are stored as a tree of segments rather than in one
// ordered list, because every call names a key or a subtree; listings are sorted when needed.
//
// Invariant: every node except the root has a key, or children, or both.
type node struct {
	kv       *broker.KV // nil if there is no such key; never modified, only replaced
	children map[string]*node
}

// pathOf is a key, or a prefix, without the slashes around it.
func pathOf(key string) string { return strings.Trim(key, "/") }

// find returns the node of a path, or nil.
func (n *node) find(path string) *node {
	for more := true; more && n != nil; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		n = n.children[segment]
	}
	return n
}

// get returns the key, or nil.
func (n *node) get(key string) *broker.KV {
	if n = n.find(pathOf(key)); n == nil {
		return nil
	}
	return n.kv
}

func (n *node) set(kv *broker.KV) {
	path := pathOf(kv.Key)
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		child := n.children[segment]
		if child == nil {
			child = &node{}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[segment] = child
		}
		n = child
	}
	n.kv = kv
}

// remove removes the key at the end of a path, and every node on the path that becomes
// empty.
func (n *node) remove(path string) {
	segment, path, more := strings.Cut(path, "/")
	child := n.children[segment]
	switch {
	case child == nil:
		return
	case more:
		child.remove(path)
	default:
		child.kv = nil
	}
	if child.kv == nil && len(child.children) == 0 {
		delete(n.children, segment)
	}
}

// below returns the keys below a prefix in the order of their bytes.
func (n *node) below(prefix string) []*broker.KV {
	top := n.find(pathOf(prefix))
	if top == nil {
		return nil
	}
	var kvs []*broker.KV
	for _, child := range top.children {
		kvs = child.gather(kvs)
	}
	// The segments have a different order: "a-1" sorts before "a/x".
	slices.SortFunc(kvs, func(a, b *broker.KV) int { return strings.Compare(a.Key, b.Key) })
	return kvs
}

func (n *node) gather(kvs []*broker.KV) []*broker.KV {
	if n.kv != nil {
		kvs = append(kvs, n.kv)
	}
	for _, child := range n.children {
		kvs = child.gather(kvs)
	}
	return kvs
}
