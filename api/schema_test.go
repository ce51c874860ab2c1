package api

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// checker validates JSON against the schemas of the document without huma, which made the
// document. An unknown keyword is an error, so that no schema is checked only in part.
type checker struct{ schemas map[string]any }

func (c checker) check(schema any, value any, at string) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the schema is %v", at, schema)
	}
	if ref, ok := s["$ref"].(string); ok {
		name, ok := strings.CutPrefix(ref, "#/components/schemas/")
		if !ok || c.schemas[name] == nil {
			return fmt.Errorf("%s: %s leads nowhere", at, ref)
		}
		return c.check(c.schemas[name], value, at)
	}
	for keyword, what := range s {
		if err := c.keyword(s, keyword, what, value, at); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) keyword(s map[string]any, keyword string, what, value any, at string) error {
	switch keyword {
	case "description", "format", "examples", "contentEncoding":
		return nil
	case "type":
		return c.isType(what, value, at)
	case "enum":
		if !slices.Contains(what.([]any), value) {
			return fmt.Errorf("%s: %v is none of %v", at, value, what)
		}
	case "anyOf":
		for _, one := range what.([]any) {
			if c.check(one, value, at) == nil {
				return nil
			}
		}
		return fmt.Errorf("%s: %v is none of those possible", at, value)
	case "items":
		list, _ := value.([]any)
		for i, item := range list {
			if err := c.check(what, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "required":
		object, isObject := value.(map[string]any)
		for _, name := range what.([]any) {
			if _, ok := object[name.(string)]; !ok && isObject {
				return fmt.Errorf("%s: there is no %s", at, name)
			}
		}
	case "properties", "additionalProperties":
		return c.properties(s, keyword, value, at)
	case "minimum":
		if n, ok := value.(float64); ok && n < what.(float64) {
			return fmt.Errorf("%s: %v is less than %v", at, n, what)
		}
	case "minLength", "maxLength":
		n := len(fmt.Sprint(value))
		if keyword == "minLength" && n < int(what.(float64)) || keyword == "maxLength" && n > int(what.(float64)) {
			return fmt.Errorf("%s: %v has %d bytes, the %s is %v", at, value, n, keyword, what)
		}
	default:
		return fmt.Errorf("%s: the keyword %s is not known here", at, keyword)
	}
	return nil
}

func (c checker) properties(s map[string]any, keyword string, value any, at string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	named, _ := s["properties"].(map[string]any)
	for name, v := range object {
		schema, known := named[name]
		switch {
		case keyword == "properties" && known:
		case keyword == "additionalProperties" && !known:
			if schema = s[keyword]; schema == false {
				return fmt.Errorf("%s: %s is not described", at, name)
			}
		default:
			continue
		}
		if err := c.check(schema, v, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) isType(what, value any, at string) error {
	types, several := what.([]any)
	if !several {
		types = []any{what}
	}
	is := "null"
	switch v := value.(type) {
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	case float64:
		if is = "number"; v == math.Trunc(v) && slices.Contains(types, any("integer")) {
			is = "integer"
		}
	}
	if !slices.Contains(types, any(is)) {
		return fmt.Errorf("%s: %v is no %v", at, value, what)
	}
	return nil
}

func TestChecker_Fails(t *testing.T) {
	c := checker{map[string]any{"X": map[string]any{"type": "object", "additionalProperties": false, "required": []any{"a"},
		"properties": map[string]any{"a": map[string]any{"type": "integer"}, "b": map[string]any{"type": []any{"array", "null"},
			"items": map[string]any{"enum": []any{"x"}}}}}}}
	schema := map[string]any{"anyOf": []any{map[string]any{"$ref": "#/components/schemas/X"}, map[string]any{"type": "null"}}}
	for text, right := range map[string]bool{
		`{"a":1}`: true, `{"a":1,"b":["x"]}`: true, `{"a":1,"b":null}`: true, `null`: true,
		`{}`: false, `{"a":1.5}`: false, `{"a":null}`: false, `{"a":1,"c":1}`: false, `{"a":1,"b":["y"]}`: false, `"x"`: false, `{"a":1,"b":{}}`: false,
	} {
		var value any
		must(t, json.Unmarshal([]byte(text), &value))
		if err := c.check(schema, value, "it"); (err == nil) != right {
			t.Errorf("%s: %v", text, err)
		}
	}
	if c.check(map[string]any{"bogus": 1}, nil, "it") == nil {
		t.Error("a keyword that is not known passes")
	}
}
