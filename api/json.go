package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass/internal/view"
)

// jsonFormat reads strictly and writes as the command line does.
var jsonFormat = huma.Format{Marshal: writeJSON, Unmarshal: readJSON}

func writeJSON(w io.Writer, value any) error { return view.WriteJSON(w, value, "") }

// encode is one line of JSON, as an event carries it.
func encode(value any) ([]byte, error) {
	text, err := view.EncodeJSON(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

var (
	errNoUTF8 = errors.New("must be valid UTF-8")
	errMore   = errors.New("must be one JSON value, with nothing after it")
)

// readJSON refuses what the decoder would put other characters in the place of, and
// what follows the value.
func readJSON(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errNoUTF8
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return view.DecodingError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}
