package stored

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Once returns an error if an object within a value has a member twice, and names it by its
// path, such as retry.min or [2].props.url. Which of the two counts depends on the reader:
// encoding/json takes the last one, others the first or none (RFC 8259, section 4).
//
// v is of the type that the value is decoded into, nil for any. Names of the fields of a
// struct are compared as encoding/json does, without regard to case; others exactly. Once
// takes a time that grows with the value, and does not say whether that is valid JSON.
func Once(value []byte, v any) error {
	path := Repeated(value, v)
	if path == "" {
		return nil
	}
	return fmt.Errorf("the field %q is there twice", path)
}

// Repeated is Once for callers with an error of their own. It returns the path, empty if
// nothing is there twice.
func Repeated(value []byte, v any) (path string) {
	s := scanner{rest: value}
	path, _ = s.value(reflect.TypeOf(v), 0)
	return strings.TrimPrefix(path, ".")
}

// depthMax is how deep values are nested that encoding/json reads.
const depthMax = 10_000

// scanner reads JSON, and gives up where it is not valid.
type scanner struct{ rest []byte }

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

// value reads a value that is decoded into a type. It returns the path below it of a member
// that is there twice, and whether to go on.
func (s *scanner) value(t reflect.Type, depth int) (path string, ok bool) {
	switch c := s.blank(); {
	case depth > depthMax:
		return "", false
	case c == '{':
		return s.object(plain(t), depth)
	case c == '[':
		return s.array(plain(t), depth)
	case c == '"':
		_, ok = s.text()
		return "", ok
	}
	end := bytes.IndexAny(s.rest, ",]} \t\r\n") // of a number, or a word
	if end < 0 {
		end = len(s.rest)
	}
	s.rest = s.rest[end:]
	return "", end > 0
}

// text reads a string and returns it with its escapes.
func (s *scanner) text() (escaped []byte, ok bool) {
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case '"':
			escaped, s.rest = s.rest[1:i], s.rest[i+1:]
			return escaped, true
		}
	}
	return nil, false
}

func (s *scanner) array(t reflect.Type, depth int) (path string, ok bool) {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		t = t.Elem()
	} else {
		t = nil
	}
	s.rest = s.rest[1:]
	if s.blank() == ']' {
		s.rest = s.rest[1:]
		return "", true
	}
	for i := 0; ; i++ {
		if path, ok = s.value(t, depth+1); path != "" {
			return below("["+strconv.Itoa(i)+"]", path), false
		}
		if !ok || !s.separator() {
			return "", ok && s.closed(']')
		}
	}
}

func (s *scanner) object(t reflect.Type, depth int) (path string, ok bool) {
	folds := t != nil && t.Kind() == reflect.Struct
	var names members
	s.rest = s.rest[1:]
	if s.blank() == '}' {
		s.rest = s.rest[1:]
		return "", true
	}
	for {
		if s.blank() != '"' {
			return "", false
		}
		escaped, ok := s.text()
		if !ok || s.blank() != ':' {
			return "", false
		}
		s.rest = s.rest[1:]
		name := unescaped(escaped)
		if names.has(name, folds) {
			return member(name), false
		}
		if path, ok = s.value(typeOf(t, name), depth+1); path != "" {
			return below(member(name), path), false
		}
		if !ok || !s.separator() {
			return "", ok && s.closed('}')
		}
	}
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

// below is the path of a member within another.
func below(outer, path string) string {
	switch {
	case strings.HasPrefix(path, "…"):
		return path
	case len(outer)+len(path) > pathBytesMax:
		return "…" + path
	}
	return outer + path
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
	few  []string
	many map[string]bool
}

// fewMax is up to how many names comparing each beats hashing.
const fewMax = 8

// foldRune returns the same rune for all that differ only in case, as encoding/json does.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// has adds a name, and reports whether it was there.
func (m *members) has(name string, folds bool) bool {
	if folds {
		name = strings.Map(foldRune, name)
	}
	if m.many == nil {
		for _, known := range m.few {
			if known == name {
				return true
			}
		}
		if len(m.few) < fewMax {
			m.few = append(m.few, name)
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

// typeOf is the type of a member of an object that is decoded into a type.
func typeOf(t reflect.Type, name string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() == reflect.Struct:
		return fieldsOf(t)[strings.Map(foldRune, name)]
	}
	return nil
}

// structFields has the result of fieldsOf by type. There are few types, and finding their
// fields takes longer than reading an object.
var structFields sync.Map

// fieldsOf has the types of a struct's fields by their folded names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := structFields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[strings.Map(foldRune, cmp.Or(tag, field.Name))] = field.Type
	}
	structFields.Store(t, fields)
	return fields
}
