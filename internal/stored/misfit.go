package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Decode decodes a value, which is valid JSON, into what into points at. Its error is a *Fault that leads
// to the first part of the value that does not fit, and says in words of JSON what it must be. The errors of
// encoding/json have types of Go, and no field where a type reads itself.
func Decode(value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		f := misfit(value, reflect.TypeOf(into).Elem(), err)
		f.Path = strings.TrimPrefix(f.Path, ".")
		return f
	}
	return nil
}

// misfit looks for the part of a value to which an error of decoding it into a type is due.
func misfit(value []byte, t reflect.Type, err error) *Fault {
	s := scanner{rest: value}
	switch c, t := s.blank(), plain(t); {
	case t == nil:
	case c == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		members, _ := s.memberNodes(0)
		for _, m := range members {
			if below, _ := typeOf(t, m.name); below != nil {
				if err := json.Unmarshal(m.raw, reflect.New(below).Interface()); err != nil {
					return misfit(m.raw, below, err).below(member(m.name))
				}
			}
		}
	case c == '[' && t.Kind() == reflect.Slice:
		var items []json.RawMessage
		_ = json.Unmarshal(value, &items) // it is valid
		for i, item := range items {
			if err := json.Unmarshal(item, reflect.New(t.Elem()).Interface()); err != nil {
				return misfit(item, t.Elem(), err).below(fmt.Sprintf("[%d]", i))
			}
		}
	}
	return &Fault{What: reasonOf(t, err)}
}

// reasonOf says why a value does not fit a type.
func reasonOf(t reflect.Type, err error) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return `must be a time such as "2026-01-02T15:04:05Z"`
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return shorten.To(err.Error(), 200)
	case t.Kind() == reflect.Interface:
		return tooBig
	}
	return fmt.Sprintf("must be %s, not %s", kindOf(t), shorten.To(wrong.Value, 80))
}

// kindOf is what a type is called in JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d bits", t.Bits())
	}
	return fmt.Sprintf("a number of at most %d bits", t.Bits())
}
