package view

import (
	"encoding/json"
	"errors"
	"strings"
)

// DecodingError shortens an error of decoding JSON that repeats a long value.
func DecodingError(err error) error {
	const shown = 80
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && len(e.Value) > shown {
		short := *e
		short.Value = strings.ToValidUTF8(e.Value[:shown], "") + "…"
		return &short
	}
	return err
}
