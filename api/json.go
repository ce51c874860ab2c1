package api

import (
	"bytes"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass/internal/view"
)

// jsonFormat encodes as the command line does. Bodies are read by decode.
var jsonFormat = huma.Format{Marshal: writeJSON}

func writeJSON(w io.Writer, value any) error { return view.WriteJSON(w, value, "") }

// encode returns one line of JSON, without its end.
func encode(value any) ([]byte, error) {
	text, err := view.EncodeJSON(value, "")
	return bytes.TrimSuffix(text, []byte("\n")), err
}
