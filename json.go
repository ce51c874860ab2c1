package windlass

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// validJSON tells whether a value can be part of what is stored as JSON: the
// standard library lets bytes pass that are not UTF-8.
func validJSON(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }

// plainJSON is the JSON of a value as it is stored. The standard spelling makes six
// bytes of each <, > and &, also within JSON that is given, which would then be
// over its limit.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
