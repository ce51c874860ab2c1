// Package stored is JSON as it stands in the store: how it is spelled, and how what
// a newer program has put into a value outlives that an older one writes it again.
package stored

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Marshal spells a value. The standard spelling makes six bytes of each <, > and &,
// also within JSON that is given, which would then be over its limit.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Valid tells whether a value can be part of what is stored as JSON: the standard
// library lets bytes pass that are not UTF-8.
func Valid(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }

// Unmarshal reads a value as json.Unmarshal does. all is false if it has members
// that v has no field for, at any depth: see UnknownIn.
func Unmarshal(value []byte, v any) (all bool, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(v) == nil {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return true, nil
		}
	}
	reflect.ValueOf(v).Elem().SetZero()
	return false, json.Unmarshal(value, v)
}

// Unknown are members of an object, spelled without its braces; empty for none.
type Unknown string

// UnknownIn returns the members of an object that the struct v has no field for.
func UnknownIn(object []byte, v any) Unknown {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return ""
	}
	for field := range reflect.TypeOf(v).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			maps.DeleteFunc(members, func(member string, _ json.RawMessage) bool { return strings.EqualFold(member, name) })
		}
	}
	var spelled []string
	for _, member := range slices.Sorted(maps.Keys(members)) {
		name, _ := Marshal(member) // a string has a spelling
		spelled = append(spelled, string(name)+":"+string(members[member]))
	}
	return Unknown(strings.Join(spelled, ","))
}

// MarshalEach is MarshalWith of each of some structs.
func MarshalEach[T any](all []T, more func(T) Unknown) ([]json.RawMessage, error) {
	values := make([]json.RawMessage, len(all))
	for i, v := range all {
		var err error
		if values[i], err = MarshalWith(v, more(v)); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// MarshalWith is Marshal of a struct together with members that it has no field for.
func MarshalWith(v any, more Unknown) ([]byte, error) {
	value, err := Marshal(v)
	if err != nil || more == "" {
		return value, err
	}
	value = bytes.TrimSuffix(value, []byte("}"))
	if len(value) > len("{") {
		value = append(value, ',')
	}
	return append(append(value, more...), '}'), nil
}
