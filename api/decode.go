package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass/internal/stored"
)

// sentField is the field of an input that has the body. Of one that is named Body, as huma has it, huma
// would make a copy, and decode it as a whole twice, once for the schema: of ten thousand tasks that takes
// more memory than all else that is done with them.
const sentField = "Sent"

// describeBody adds the body of an endpoint, which is named after its input, to the description.
func (s *Server) describeBody(e *endpoint, input string) {
	e.schema = s.huma.OpenAPI().Components.Schemas.Schema(e.body, true, input+"Body")
	e.schema.Nullable = false // of a list, it is to huma
	e.schema.PrecomputeMessages()
	content := map[string]*huma.MediaType{}
	for _, media := range e.bodyTypes() {
		content[media] = &huma.MediaType{Schema: e.schema}
	}
	s.operation(e).RequestBody = &huma.RequestBody{Required: true, Content: content}
}

// decode decodes the body of a request, which readBody has checked, and drops it.
func (s *Server) decode(ctx context.Context, e *endpoint, into reflect.Value) error {
	t := stateOf(ctx)
	content := t.content
	t.content = nil
	defer t.decoded()
	if len(content) == 0 {
		return problem(http.StatusBadRequest, "malformed", "body: is required").about("body", "", "is required")
	}
	if !json.Valid(content) {
		return malformed("body", json.Unmarshal(content, new(any)))
	}
	d := decoder{schemas: s.huma.OpenAPI().Components.Schemas, path: huma.NewPathBuffer(nil, 0)}
	d.path.Push("body")
	if into.Kind() == reflect.Slice && bytes.TrimLeft(content, " \t\r\n")[0] == '[' {
		return d.list(content, e.schema.Items, into)
	}
	if err := d.check(json.NewDecoder(bytes.NewReader(content)), e.schema); err != nil {
		return err
	}
	if len(d.found.Errors) > 0 {
		return invalid(d.found.Errors)
	}
	return d.value(json.NewDecoder(bytes.NewReader(content)), into)
}

// decoder decodes a body that is valid JSON.
type decoder struct {
	schemas huma.Registry
	// path leads to what it decodes.
	path *huma.PathBuffer
	// found are the mistakes by the schema.
	found huma.ValidateResult
}

// list decodes a list, first for its schema and then into another, item by item: so there is no more in
// memory than one item, and what it becomes.
func (d *decoder) list(content []byte, of *huma.Schema, into reflect.Value) error {
	items, n := itemsOf(content), 0
	for ; items.More() && len(d.found.Errors) <= mistakesMax; n++ {
		d.path.PushIndex(n)
		if err := d.check(items, of); err != nil {
			return err
		}
		d.path.Pop()
	}
	if len(d.found.Errors) > 0 {
		return invalid(d.found.Errors)
	}
	list := reflect.MakeSlice(into.Type(), n, n)
	items = itemsOf(content)
	for i := range n {
		d.path.PushIndex(i)
		if err := d.value(items, list.Index(i)); err != nil {
			return err
		}
		d.path.Pop()
	}
	into.Set(list)
	return nil
}

// itemsOf returns a decoder that is within a list.
func itemsOf(content []byte) *json.Decoder {
	items := json.NewDecoder(bytes.NewReader(content))
	_, _ = items.Token() // the bracket
	return items
}

// check looks for mistakes in the next value.
func (d *decoder) check(from *json.Decoder, of *huma.Schema) error {
	var value any
	if err := from.Decode(&value); err != nil {
		return malformed(d.path.String(), err)
	}
	huma.Validate(d.schemas, of, d.path, huma.ModeWriteToServer, value, &d.found)
	return nil
}

// value decodes the next value.
func (d *decoder) value(from *json.Decoder, into reflect.Value) error {
	var raw json.RawMessage
	if err := from.Decode(&raw); err != nil {
		return malformed(d.path.String(), err)
	}
	if err := stored.Decode(raw, into.Addr().Interface()); err != nil {
		return misfit(d.path.String(), err)
	}
	return nil
}

// misfit is the problem of a value that does not fit, or is not known, in a field.
func misfit(field string, err error) *Problem {
	fault, ok := errors.AsType[*stored.Fault](err)
	if !ok {
		return problem(http.StatusUnprocessableEntity, "invalid", "%s: %v", field, err).about(field, "", err.Error())
	}
	return problem(http.StatusUnprocessableEntity, "invalid", "%s: %v", field, fault).about(within(field, fault.Path), "", fault.What)
}

// malformed is the problem of a value that is no JSON.
func malformed(path string, err error) *Problem {
	return problem(http.StatusBadRequest, "malformed", "%s: %v", path, err).about(path, "", err.Error())
}

// invalid is the problem of mistakes that huma has found.
func invalid(found []error) *Problem {
	p := problem(http.StatusUnprocessableEntity, "invalid", "")
	for _, err := range found {
		if detail, is := err.(*huma.ErrorDetail); is {
			p.add(Mistake{Field: detail.Location, Value: shown(detail.Value), Limit: detail.Message})
		}
	}
	return p
}
