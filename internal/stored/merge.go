package stored

import "bytes"

// Merge applies a JSON merge patch (RFC 7396) to a value: of two objects the members are merged, null
// removes one, and anything else takes the place of what was there. object is nil where nothing was. What
// the patch does not name stays as it is written. Both must be valid JSON with each member once, as
// Check finds. The time that Merge takes grows with both, however deep they are.
func Merge(object, patch []byte) []byte {
	var out bytes.Buffer
	merge(&out, parse(object), parse(patch))
	return out.Bytes()
}

// node is a value, with the members of an object.
type node struct {
	raw      []byte
	isObject bool
	members  []memberNode
}

func (n node) isNull() bool { return string(n.raw) == "null" }

type memberNode struct {
	// key is the name as it is written.
	key  []byte
	name string
	node
}

func parse(value []byte) node {
	s := scanner{rest: value}
	n, _ := s.node(0)
	return n
}

// node reads a value with the objects in it; what is in a list stays raw.
func (s *scanner) node(depth int) (n node, ok bool) {
	c := s.blank()
	from := s.rest
	if c == '{' && depth < depthMax {
		n.isObject = true
		n.members, ok = s.memberNodes(depth)
	} else {
		_, ok = s.value(nil, depth)
	}
	n.raw = from[:len(from)-len(s.rest)]
	return n, ok
}

func (s *scanner) memberNodes(depth int) (members []memberNode, ok bool) {
	s.rest = s.rest[1:]
	if s.blank() == '}' {
		s.rest = s.rest[1:]
		return nil, true
	}
	for {
		var m memberNode
		s.blank()
		from := s.rest
		if m.name, ok = s.name(); !ok {
			return members, false
		}
		m.key = from[:bytes.LastIndexByte(from[:len(from)-len(s.rest)], '"')+1]
		m.node, ok = s.node(depth + 1)
		members = append(members, m)
		if !ok || !s.separator() {
			return members, ok && s.closed('}')
		}
	}
}

// merge writes what an object is after a patch.
func merge(out *bytes.Buffer, object, patch node) {
	if !patch.isObject {
		out.Write(patch.raw)
		return
	}
	changes := make(map[string]node, len(patch.members))
	for _, m := range patch.members {
		changes[m.name] = m.node
	}
	first := byte('{')
	write := func(m memberNode, before, change node) {
		out.WriteByte(first)
		first = ','
		out.Write(m.key)
		out.WriteByte(':')
		merge(out, before, change)
	}
	for _, m := range object.members {
		switch change, changed := changes[m.name]; {
		case !changed:
			write(m, node{}, node{raw: m.raw})
		case !change.isNull():
			write(m, m.node, change)
		}
		delete(changes, m.name)
	}
	for _, m := range patch.members {
		if change, isNew := changes[m.name]; isNew && !change.isNull() {
			write(m, node{}, change)
		}
	}
	if first == '{' {
		out.WriteByte('{')
	}
	out.WriteByte('}')
}
