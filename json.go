package windlass

import (
	"encoding/json"
	"unicode/utf8"
)

// validJSON tells whether a value can be part of what is stored as JSON: the
// standard library lets bytes pass that are not UTF-8.
func validJSON(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }
