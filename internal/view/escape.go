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

// shows tells whether a character is seen as itself and does nothing else to a terminal:
// it is no control character, and does not turn the direction of what follows.
func shows(r rune) bool { return unicode.IsGraphic(r) || r == '\n' || r == '\t' }

// EncodeJSON is what WriteJSON writes.
func EncodeJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	err := WriteJSON(&b, value, indent)
	return b.Bytes(), err
}

// WriteJSON writes a value as a line of JSON, or as several with an indent, as everything
// here shows it: what is not seen as itself is escaped, and nothing for HTML. It writes all
// at once, or nothing if the value cannot be encoded.
func WriteJSON(to io.Writer, value any, indent string) error {
	e := json.NewEncoder(jsonEscaper{to})
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// jsonEscaper passes whole JSON texts on as EscapeJSON makes them.
type jsonEscaper struct{ to io.Writer }

func (e jsonEscaper) Write(text []byte) (int, error) {
	if _, err := e.to.Write(EscapeJSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// EscapeJSON writes the characters of a JSON text that are not seen as themselves as its
// escapes, which say the same.
func EscapeJSON(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7f }) {
		return text // what is below, JSON has escaped already
	}
	escaped := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		high, low := utf16.EncodeRune(r)
		switch {
		case r == utf8.RuneError && n == 1: // it is in no character
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

// EscapeText writes the characters of a text that are not seen as themselves as Go does in
// a string: \x1b, \u202e.
func EscapeText(text string) string {
	e := escaper{}
	return string(append(e.escape([]byte(text)), e.rest()...))
}

// Escaper is a writer that passes text on as EscapeText makes it. Close writes what is left
// of a character that was not completed; it does not close the other.
func Escaper(to io.Writer) io.WriteCloser { return &escaper{to: to} }

type escaper struct {
	to io.Writer
	// begun is the beginning of a character.
	begun []byte
}

// Write implements io.Writer.
func (e *escaper) Write(text []byte) (int, error) {
	if _, err := e.to.Write(e.escape(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Close implements io.Closer.
func (e *escaper) Close() error {
	_, err := e.to.Write(e.rest())
	return err
}

func (e *escaper) escape(text []byte) (escaped []byte) {
	text = append(e.begun, text...)
	e.begun = nil
	for len(text) > 0 {
		if !utf8.FullRune(text) {
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

// rest is the beginning of a character that will not be completed.
func (e *escaper) rest() (escaped []byte) {
	for _, b := range e.begun {
		escaped = fmt.Appendf(escaped, `\x%02x`, b)
	}
	e.begun = nil
	return escaped
}
