package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/windlass-go/windlass"
)

// Applied is what a file of tasks changes, or would change. Its JSON is stable.
type Applied struct {
	DryRun    bool `json:"dry_run"`
	Created   int  `json:"created"`
	Updated   int  `json:"updated"`
	Requeued  int  `json:"requeued"`
	Unchanged int  `json:"unchanged"`
	Ended     int  `json:"ended"`
	Failed    int  `json:"failed"`
	// Changes are those of the tasks that are updated; Errors are the first
	// ErrorsShownMax.
	Changes  []Changed `json:"changes"`
	Errors   []string  `json:"errors"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Changed is what is changed about one task. Its JSON is stable.
type Changed struct {
	ID      string   `json:"id"`
	Changes []Change `json:"changes"`
}

// Change is one value that is changed, nil for none. Its JSON is stable.
type Change struct {
	// Field is the path of the value, as in props.command.
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// ChangesOf returns the values in which two submissions of a task differ, by their
// fields.
func ChangesOf(from, to windlass.Submission) []Change {
	return append([]Change{}, differ("", fieldsOf(from), fieldsOf(to))...) // [] in JSON for none
}

// fieldsOf returns the type, the properties and the settings of a task, as the lines of a
// file have them.
func fieldsOf(s windlass.Submission) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	encoded, _ := json.Marshal(s.Spec) // what was read, or validated, can be encoded
	_ = json.Unmarshal(encoded, &fields)
	for _, ours := range []string{"job", "restarted_at", "turn", "submitted_at", "digest", "trace", "by"} {
		delete(fields, ours)
	}
	if len(s.Props) > 0 {
		fields["props"] = s.Props
	}
	return fields
}

// Patch changes the type, the properties and the settings of a task by a merge patch, as
// in RFC 7396: null removes a value, and of two objects the fields are merged.
func Patch(s *windlass.Submission, patch map[string]json.RawMessage) error {
	var line Submission
	merged, err := EncodeJSON(merge(fieldsOf(*s), patch), "") // escapes nothing that was not
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(merged))
		d.DisallowUnknownFields()
		err = DecodingError(d.Decode(&line))
	}
	switch {
	case err != nil:
		return err
	case line.ID != "" || line.Rerun:
		return errors.New("neither the ID of a live task can be changed nor whether it is run again")
	}
	before := s.Spec
	if _, changes := patch["props"]; changes {
		s.Props = notNull(line.Props)
	}
	s.Spec = line.Of(line.Type)
	s.Spec.Job, s.Spec.SubmittedAt, s.Spec.RestartedAt = before.Job, before.SubmittedAt, before.RestartedAt
	s.Spec.Turn, s.Spec.Trace = before.Turn, cmp.Or(line.Trace, before.Trace)
	return nil
}

// merge applies a merge patch to an object.
func merge(object, patch map[string]json.RawMessage) map[string]json.RawMessage {
	for name, value := range patch {
		var fields, below map[string]json.RawMessage
		if json.Unmarshal(value, &fields) == nil && fields != nil {
			if json.Unmarshal(object[name], &below) != nil || below == nil {
				below = map[string]json.RawMessage{}
			}
			value, _ = EncodeJSON(merge(below, fields), "") // of what was decoded
		}
		if object[name] = value; notNull(value) == nil {
			delete(object, name)
		}
	}
	return object
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

// String returns the change on a line.
func (c Change) String() string {
	show := func(value json.RawMessage) string {
		if len(value) == 0 {
			return "none"
		}
		return string(value)
	}
	return c.Field + ": " + show(c.From) + " → " + show(c.To)
}
