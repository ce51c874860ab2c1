package api

import (
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
)

// What is wrong with a body is told by its place, whether it is one value or a list.
func TestDecode_AnErrorNamesThePlace(t *testing.T) {
	b := newBench(t, nil)
	const one, list = "/v1/tasks", "/v1/submissions"
	for _, c := range []struct {
		name, path, body string
		status           int
		field, limit     string
	}{
		{"nothing", one, "", 400, "body", "is required"},
		{"nothing but space", one, "  ", 400, "body", "unexpected end of JSON input"},
		{"no JSON", one, `{"id":}`, 400, "body", "invalid character '}' looking for beginning of value"},
		{"more than one value", one, `{"id":"a"} {}`, 400, "body", "invalid character '{' after top-level value"},
		{"more than a list", list, `[] x`, 400, "body", "invalid character 'x' after top-level value"},
		{"null", one, "null", 422, "body", "expected object"},
		{"null for a list", list, "null", 422, "body", "expected array"},
		{"an object for a list", list, "{}", 422, "body", "expected array"},
		{"a list for an object", one, "[]", 422, "body", "expected object"},
		{"an item that is none", list, `[{"id":"a"},null]`, 422, "body[1]", "expected object"},
		{"a field of an item", list, `[{"id":"a"},{"id":"b","priority":"high"}]`, 422, "body[1].priority", "expected integer"},
		{"a field of a field", list, `[{"id":"a","retry":{"min":7}}]`, 422, "body[0].retry.min", "expected string"},
		{"a number that is none of a computer", list, `[{"id":"a","weight":1e400}]`, 422, "body[0].weight", "is a number beyond those of 64 bits"},
		{"a value that the type refuses", one, `{"id":"a","timeout":"soon"}`, 422, "body.timeout", `must be a duration such as "1h30m", not "soon"`},
		{"a value that the type of an item refuses", list, `[{"id":"a"},{"id":"b","retry":{"min":"1e9s"}}]`, 422, "body[1].retry.min", `must be a duration such as "1h30m", not "1e9s"`},
		{"half of a character", one, `{"id":"a\ud83d"}`, 422, "body.id", "has half of a character"},
		{"half of one in a name", one, `{"id":"a","props":{"\udc00":1}}`, 422, "body.props.\uFFFD", "has half of a character"},
		{"a value of an item that is too large", list, `[{"id":"a"},{"id":"b","priority":5000}]`, 422, "body[1].priority", "must be"},
	} {
		code := map[int]string{400: "malformed", 422: "invalid"}[c.status]
		w := b.want(c.status, code, request("POST", c.path, c.body))
		if p := read[Problem](b, w); p.Field != c.field || !strings.Contains(p.Limit, c.limit) {
			t.Errorf("%s: the field %q %s, want %q and %q", c.name, p.Field, p.Limit, c.field, c.limit)
		}
	}
	b.want(200, "", request("POST", list, " [] "))
	w := b.want(422, "invalid", request("POST", list, listOf("7", 100)))
	if p := read[Problem](b, w); p.Field != "body[0]" || len(p.Others) != mistakesMax || p.Others[19].Field != "body[20]" {
		t.Errorf("of many mistakes it has %+v", p)
	}
}

// So is what is wrong with a patch, which is decoded once it is merged.
func TestPatch_AnErrorNamesThePlace(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t"}})
	for patch, want := range map[string]string{
		`{"timeout":"soon"}`:          `body.timeout must be a duration such as "1h30m", not "soon"`,
		`{"timeout":7}`:               `body.timeout must be a duration such as "1h30m", not 7`,
		`{"retry":{"errors":"many"}}`: "body.retry.errors must be a whole number of at most 64 bits, not string",
		`{"not_before":"soon"}`:       `body.not_before must be a time such as "2026-01-02T15:04:05Z"`,
		`{"needs":["b",1]}`:           "body.needs[1] must be a text, not number",
		`{"tags":{"x":"1","y":true}}`: "body.tags.y must be a text, not bool",
		`{"require":7}`:               "body.require must be an object, not number",
		`{"weight":1.5}`:              "body.weight must be a whole number of at most 64 bits, not number 1.5",
		`{"retry":{"speed":null}}`:    "body.retry.speed is not known",
		`{"priority":9000}`:           "priority must be from -1000 to 1000",
	} {
		w := b.want(422, "invalid", request("PATCH", "/v1/tasks/a", patch))
		if p := read[Problem](b, w); p.Field+" "+p.Limit != want {
			t.Errorf("%s is refused as %q %q, want %q", patch, p.Field, p.Limit, want)
		}
	}
}
