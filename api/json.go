package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/internal/view"
)

// jsonFormat decodes strictly and encodes as the command line does.
var jsonFormat = huma.Format{Marshal: writeJSON, Unmarshal: readJSON}

func writeJSON(w io.Writer, value any) error { return view.WriteJSON(w, value, "") }

// encode returns one line of JSON, without its end.
func encode(value any) ([]byte, error) {
	text, err := view.EncodeJSON(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}

var (
	errNoUTF8 = errors.New("must be valid UTF-8")
	errMore   = errors.New("must be one JSON value, with nothing after it")
)

// readJSON refuses invalid UTF-8, which the decoder would replace, fields that are there
// twice, of which it would take the last, and anything after the value.
func readJSON(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errNoUTF8
	}
	if err := stored.Once(data, into); err != nil {
		return err
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
