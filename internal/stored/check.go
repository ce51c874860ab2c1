package stored

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds limit what a value may hold; zero is no limit.
type Bounds struct {
	// Values is how many values there are in all, Items how many of them are in one list
	// that is decoded into a slice, and Members in one object that is decoded into a map.
	Values, Items, Members int
	// Depth is how deep lists and objects are within each other.
	Depth int
	// Text is how many bytes a text has for a type that reads itself, such as a time: its error may have
	// the whole text.
	Text int
	// Float64 refuses numbers beyond those of 64 bits, and Surrogates halves of a character in a text
	// (RFC 8259, section 8.2): the decoder fails at the ones without a place, and replaces the others.
	Float64, Surrogates bool
}

// Fault is what is wrong with a value, and where.
type Fault struct {
	// Path leads to it, such as retry.min or [2].props.url. It is empty for the value itself.
	Path string
	// What is wrong, to be read after the path.
	What string
}

// Twice is what is wrong with an object that has a member twice.
const Twice = "is there twice"

// Error says what is wrong, and where.
func (f *Fault) Error() string {
	if f.Path == "" {
		return "the value " + f.What
	}
	return fmt.Sprintf("the field %q %s", f.Path, f.What)
}

// Check looks for what a decoder would pass over, or pay dearly for, before it decodes a value into
// the type of v, which is nil for any. It returns the first fault that it finds, nil if there is none:
//
//   - An object that has a member twice. Which of them counts depends on the reader: encoding/json
//     takes the last one, others the first or none (RFC 8259, section 4).
//   - A member that is none of the struct's fields, or is one in another case, which encoding/json
//     takes for it.
//   - More than the bounds allow.
//
// Check takes a time that grows with the value, and does not say whether that is valid JSON.
func Check(value []byte, v any, most Bounds) *Fault { return CheckType(value, reflect.TypeOf(v), most) }

// CheckType is Check with the type itself.
func CheckType(value []byte, t reflect.Type, most Bounds) *Fault {
	s := scanner{rest: value, most: most}
	fault, _ := s.value(t, 0)
	if fault != nil {
		fault.Path = strings.TrimPrefix(fault.Path, ".")
	}
	return fault
}

// depthMax is how deep values are nested that encoding/json reads.
const depthMax = 10_000

// scanner reads JSON, and gives up where it is not valid.
type scanner struct {
	rest   []byte
	most   Bounds
	values int
	// half is true once a text had half of a character.
	half bool
}

// halved is what is wrong with a text that has half of a character.
const halved = "has half of a character, an escape of a UTF-16 surrogate alone"

// blank skips white space and returns the byte after it, 0 at the end.
func (s *scanner) blank() byte {
	for i, c := range s.rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			s.rest = s.rest[i:]
			return c
		}
	}
	s.rest = nil
	return 0
}

// value reads a value that is decoded into a type. It returns the fault that it finds, and whether
// to go on.
func (s *scanner) value(t reflect.Type, depth int) (fault *Fault, ok bool) {
	c := s.blank()
	if s.values++; s.most.Values > 0 && s.values > s.most.Values {
		return &Fault{What: fmt.Sprintf("is the one after %d values, and there may be no more", s.most.Values)}, false
	}
	nests := c == '{' || c == '['
	switch {
	case nests && s.most.Depth > 0 && depth >= s.most.Depth:
		return &Fault{What: fmt.Sprintf("is nested more than %d deep", s.most.Depth)}, false
	case depth > depthMax:
		return nil, false
	case c == '{':
		return s.object(plain(t), depth)
	case c == '[':
		return s.array(plain(t), depth)
	case c == '"':
		text, ok := s.text()
		if s.most.Text > 0 && len(text) > s.most.Text && readsItself(t) {
			return &Fault{What: fmt.Sprintf("is longer than %d bytes", s.most.Text)}, false
		}
		if s.half {
			return &Fault{What: halved}, false
		}
		return nil, ok
	}
	end := bytes.IndexAny(s.rest, ",]} \t\r\n") // of a number, or a word
	if end < 0 {
		end = len(s.rest)
	}
	if s.most.Float64 && isTooBig(s.rest[:end]) {
		return &Fault{What: tooBig}, false
	}
	s.rest = s.rest[end:]
	return nil, end > 0
}

// text reads a string and returns it with its escapes.
func (s *scanner) text() (escaped []byte, ok bool) {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			length, half := escapeOf(s.rest[i:])
			i += length - 1
			s.half = s.half || half && s.most.Surrogates
		case '"':
			escaped, s.rest = s.rest[1:i], s.rest[i+1:]
			return escaped, true
		}
	}
	return nil, false
}

func (s *scanner) array(t reflect.Type, depth int) (fault *Fault, ok bool) {
	typed := t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array)
	if typed {
		t = t.Elem()
	} else {
		t = nil
	}
	s.rest = s.rest[1:]
	if s.blank() == ']' {
		s.rest = s.rest[1:]
		return nil, true
	}
	for i := 0; ; i++ {
		if typed && s.most.Items > 0 && i >= s.most.Items {
			return &Fault{What: fmt.Sprintf("has more than %d items", s.most.Items)}, false
		}
		if fault, ok = s.value(t, depth+1); fault != nil {
			return fault.below("[" + strconv.Itoa(i) + "]"), false
		}
		if !ok || !s.separator() {
			return nil, ok && s.closed(']')
		}
	}
}

func (s *scanner) object(t reflect.Type, depth int) (fault *Fault, ok bool) {
	var names members
	s.rest = s.rest[1:]
	if s.blank() == '}' {
		s.rest = s.rest[1:]
		return nil, true
	}
	isMap := t != nil && t.Kind() == reflect.Map
	for i := 0; ; i++ {
		if isMap && s.most.Members > 0 && i >= s.most.Members {
			return &Fault{What: fmt.Sprintf("has more than %d members", s.most.Members)}, false
		}
		name, ok := s.name()
		if !ok {
			return nil, false
		}
		below, what := typeOf(t, name)
		switch {
		case s.half:
			what = halved
		case names.has(name):
			what = Twice
		}
		if what != "" {
			return (&Fault{What: what}).below(member(name)), false
		}
		if fault, ok = s.value(below, depth+1); fault != nil {
			return fault.below(member(name)), false
		}
		if !ok || !s.separator() {
			return nil, ok && s.closed('}')
		}
	}
}

// name reads the name of a member, and the colon after it.
func (s *scanner) name() (name string, ok bool) {
	if s.blank() != '"' {
		return "", false
	}
	escaped, ok := s.text()
	if !ok || s.blank() != ':' {
		return "", false
	}
	s.rest = s.rest[1:]
	return unescaped(escaped), true
}

// separator reads a comma, if there is one.
func (s *scanner) separator() bool {
	if s.blank() != ',' {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// closed reads the end of an object or array.
func (s *scanner) closed(end byte) bool {
	if s.blank() != end {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// pathBytesMax limits a path; the outer part of a longer one is left out. Joining the names
// of 10,000 levels would take a time that grows with the square of the value.
const pathBytesMax = 1 << 10

// below sets the path of a fault within another value.
func (f *Fault) below(outer string) *Fault {
	switch {
	case strings.HasPrefix(f.Path, "…"):
	case len(outer)+len(f.Path) > pathBytesMax:
		f.Path = "…" + f.Path
	default:
		f.Path = outer + f.Path
	}
	return f
}

// member is the part of a path for a member.
func member(name string) string {
	if name == "" {
		return `[""]`
	}
	return "." + name
}

func unescaped(text []byte) string {
	name := string(text)
	if strings.Contains(name, `\`) {
		var plain string
		if json.Unmarshal([]byte(`"`+name+`"`), &plain) == nil {
			return plain
		}
	}
	return name
}

// members are the names in an object: few in a list, many in a set.
type members struct {
	few  [fewMax]string
	n    int // how many of few there are
	many map[string]bool
}

// fewMax is up to how many names comparing each beats hashing.
const fewMax = 8

// has adds a name, and reports whether it was there.
func (m *members) has(name string) bool {
	if m.many == nil {
		if slices.Contains(m.few[:m.n], name) {
			return true
		}
		if m.n < fewMax {
			m.few[m.n] = name
			m.n++
			return false
		}
		m.many = make(map[string]bool, 2*fewMax)
		for _, known := range m.few {
			m.many[known] = true
		}
	}
	if m.many[name] {
		return true
	}
	m.many[name] = true
	return false
}

var (
	readsJSON = reflect.TypeFor[json.Unmarshaler]()
	readsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// plain is the type that a value is decoded into, nil for one that reads JSON itself.
func plain(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(readsJSON) || reflect.PointerTo(t).Implements(readsText) {
		return nil
	}
	return t
}

// readsItself reports whether a type reads JSON, or a text, itself and keeps something else of it.
func readsItself(t reflect.Type) bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && t != reflect.TypeFor[json.RawMessage]() && t.Kind() != reflect.Interface && plain(t) == nil
}

// typeOf is the type of a member of an object that is decoded into a type, nil for any, and what is wrong
// with the member's name.
func typeOf(t reflect.Type, name string) (below reflect.Type, wrong string) {
	switch {
	case t == nil:
		return nil, ""
	case t.Kind() == reflect.Map:
		return t.Elem(), ""
	case t.Kind() != reflect.Struct:
		return nil, ""
	}
	fields := fieldsOf(t)
	if below, known := fields[name]; known {
		return below, ""
	}
	for field := range fields {
		if strings.EqualFold(field, name) {
			return nil, fmt.Sprintf("is not known; it is written %q", field)
		}
	}
	return nil, "is not known"
}

// structFields has the result of fieldsOf by type. There are few types, and finding their
// fields takes longer than reading an object.
var structFields sync.Map

// fieldsOf has the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := structFields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag != "-" && field.IsExported() && (tag != "" || !field.Anonymous) {
			fields[cmp.Or(tag, field.Name)] = field.Type
		}
	}
	structFields.Store(t, fields)
	return fields
}
