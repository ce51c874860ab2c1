package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// shows reports whether a character is visible as itself and does nothing else to a
// terminal: no control character, and none that changes the direction of text.
func shows(r rune) bool { return unicode.IsGraphic(r) || r == '\n' || r == '\t' }

// EncodeJSON returns a value as a line of JSON, or as several with an indent. Invisible
// characters are escaped, those of HTML are not.
func EncodeJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return EscapeJSON(unescapeHTML(b.Bytes())), nil
}

// JSON is a JSON text as its author wrote it, without the escapes for HTML that came with storing it.
func JSON(text json.RawMessage) string { return string(unescapeHTML(text)) }

// unescapeHTML replaces the escapes that json.Marshal makes of <, > and & in a JSON text by these.
func unescapeHTML(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\' || i+1 == len(text):
			plain = append(plain, text[i])
		case bytes.HasPrefix(text[i:], []byte(`\u003c`)):
			plain, i = append(plain, '<'), i+5
		case bytes.HasPrefix(text[i:], []byte(`\u003e`)):
			plain, i = append(plain, '>'), i+5
		case bytes.HasPrefix(text[i:], []byte(`\u0026`)):
			plain, i = append(plain, '&'), i+5
		default:
			plain, i = append(plain, text[i], text[i+1]), i+1
		}
	}
	return plain
}

// WriteJSON writes what EncodeJSON returns, at once, and nothing after an error.
func WriteJSON(to io.Writer, value any, indent string) error {
	text, err := EncodeJSON(value, indent)
	if err == nil {
		_, err = to.Write(text)
	}
	return err
}

// EscapeJSON replaces the invisible characters of a JSON text by its escapes, which mean the
// same.
func EscapeJSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7f }) {
		return text // JSON has escaped all others already
	}
	escaped := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		high, low := utf16.EncodeRune(r)
		switch {
		case r == utf8.RuneError && n == 1: // not UTF-8
			escaped = append(escaped, `\ufffd`...)
		case shows(r) || r < ' ':
			escaped = append(escaped, text[:n]...)
		case high != utf8.RuneError:
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		text = text[n:]
	}
	return escaped
}

// EscapeText replaces the invisible characters of a text by the escapes of Go: \x1b,
// \u202e.
func EscapeText(text string) string { return string((&escaper{}).escape([]byte(text), true)) }

// Escaper is a writer that passes text on as EscapeText makes it. Close writes the rest of
// an incomplete character; it does not close to.
func Escaper(to io.Writer) io.WriteCloser { return &escaper{to: to} }

type escaper struct {
	to io.Writer
	// begun is an incomplete character.
	begun []byte
}

// Write implements io.Writer.
func (e *escaper) Write(text []byte) (int, error) {
	if _, err := e.to.Write(e.escape(text, false)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Close implements io.Closer.
func (e *escaper) Close() error {
	_, err := e.to.Write(e.escape(nil, true))
	return err
}

// escape keeps an incomplete character for the next call, unless this is the end.
func (e *escaper) escape(text []byte, end bool) (escaped []byte) {
	text = append(e.begun, text...)
	e.begun = nil
	for len(text) > 0 {
		if !end && !utf8.FullRune(text) {
			e.begun = slices.Clone(text)
			break
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && !shows(r):
			escaped = fmt.Appendf(escaped, `\x%02x`, text[0])
		case shows(r):
			escaped = append(escaped, text[:n]...)
		case r > 0xffff:
			escaped = fmt.Appendf(escaped, `\U%08x`, r)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		text = text[n:]
	}
	return escaped
}
