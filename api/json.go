package api

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/danielgtaylor/huma/v2"

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

// readJSON decodes what readBody has checked.
func readJSON(data []byte, into any) error { return view.DecodingError(json.Unmarshal(data, into)) }
