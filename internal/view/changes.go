package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/changes"
	"github.com/windlass-go/windlass/internal/stored"
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

// Change is one value that is changed.
type Change = changes.Change

// ChangesOf returns the values in which two submissions of a task differ, by their
// fields.
func ChangesOf(from, to windlass.Submission) []Change {
	return changes.Of(fieldsOf(from), fieldsOf(to))
}

func fieldsOf(s windlass.Submission) map[string]json.RawMessage {
	spec, _ := json.Marshal(s.Spec) // what was read, or validated, can be encoded
	return changes.Fields(spec, s.Props)
}

// Settings are the names of what Patch can change, sorted.
func Settings() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Submission]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains([]string{"", "id", "rerun", "trace"}, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// PatchBytesMax limits a merge patch: it may replace all needs and properties that a task can have, and name
// those that it removes.
const PatchBytesMax = 2 * windlass.InputBytesMax

// Patch changes the type, the properties and the settings of a task by a merge patch, as
// in RFC 7396: null removes a value, and of two objects the fields are merged.
func Patch(s *windlass.Submission, patch map[string]json.RawMessage) error {
	var line Submission
	whole, err := stored.Marshal(patch)
	if err != nil {
		return err
	}
	if n := len(whole); n > PatchBytesMax {
		return &stored.Fault{What: fmt.Sprintf("has %d bytes, and may have %d", n, PatchBytesMax)}
	}
	// What is merged lacks the fields that the patch removes, and has only one of two.
	if fault := stored.Check(whole, line, stored.Bounds{}); fault != nil {
		return fault
	}
	fields := fieldsOf(*s)
	for name, value := range patch {
		if fields[name] = stored.Merge(fields[name], value); notNull(fields[name]) == nil {
			delete(fields, name)
		}
	}
	merged, err := stored.Marshal(fields) // what the patch does not name stays as it was written
	if err != nil {
		return err
	}
	if fault := stored.Check(merged, line, stored.Bounds{}); fault != nil {
		return fault
	}
	switch err := stored.Decode(merged, &line); {
	case err != nil:
		return err
	case line.ID != "" || line.Rerun:
		return errors.New("neither the ID of a task can be changed nor whether it is run again")
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
