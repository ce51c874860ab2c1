// Package changes says in what two versions of a task differ.
package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Change is one value that is changed, nil for none. Its JSON is stable.
type Change struct {
	// Field is the path of the value, as in props.command.
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// Of returns the values in which two tasks differ, given by their Fields.
func Of(from, to map[string]json.RawMessage) []Change {
	return append([]Change{}, differ("", from, to)...) // [] in JSON for none
}

// Fields returns the type, the properties and the settings of a task, as the lines of a
// file have them, of its encoded spec and its properties.
func Fields(spec, props []byte) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(spec, &fields) // what was validated can be decoded
	for _, ours := range []string{"job", "restarted_at", "turn", "submitted_at", "digest", "trace", "by"} {
		delete(fields, ours)
	}
	if len(props) > 0 {
		fields["props"] = props
	}
	return fields
}

// differ compares two objects below a path. Of values that are both objects, it compares
// the fields.
func differ(path string, from, to map[string]json.RawMessage) (changes []Change) {
	both := maps.Clone(from)
	maps.Copy(both, to)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		was, is := compact(from[name]), compact(to[name])
		if bytes.Equal(was, is) {
			continue
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(was, &before) == nil && json.Unmarshal(is, &after) == nil && before != nil && after != nil {
			changes = append(changes, differ(path+name+".", before, after)...)
			continue
		}
		changes = append(changes, Change{Field: path + name, From: was, To: is})
	}
	return changes
}

// compact removes the spaces of a value, which make no difference.
func compact(value json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	if json.Compact(&text, value) != nil {
		return value
	}
	return text.Bytes()
}

// String returns the change on a line. Of a long list it has the beginning.
func (c Change) String() string { return c.Field + ": " + show(c.From) + " → " + show(c.To) }

// listMax is how many elements of a list are shown; of a longer one the first three.
const listMax = 20

func show(value json.RawMessage) string {
	var list []json.RawMessage
	switch {
	case len(value) == 0:
		return "none"
	case json.Unmarshal(value, &list) != nil || len(list) <= listMax:
		return string(value)
	}
	return fmt.Sprintf("[%s,%s,%s and %d more]", list[0], list[1], list[2], len(list)-3)
}
