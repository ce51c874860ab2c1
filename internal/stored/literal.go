package stored

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// tooBig is what is wrong with a number that no float64 is near to.
const tooBig = "is a number beyond those of 64 bits"

// isTooBig reports whether a literal is a number that no float64 is near to.
func isTooBig(literal []byte) bool {
	if len(literal) < len("1e309") {
		return false
	}
	_, err := strconv.ParseFloat(string(literal), 64)
	return errors.Is(err, strconv.ErrRange)
}

// escapeOf returns how long the escape is that a text begins with, of a surrogate pair both, and whether it
// is one half of that without the other.
func escapeOf(text []byte) (length int, half bool) {
	const unicode, short = len(`\ud800`), len(`\n`)
	r, ok := surrogateOf(text)
	if !ok {
		return short, false
	}
	after, ok := surrogateOf(text[unicode:])
	if !ok || utf16.DecodeRune(r, after) == utf8.RuneError {
		return unicode, true
	}
	return 2 * unicode, false
}

// surrogateOf returns the surrogate whose escape a text begins with, false if that is none.
func surrogateOf(text []byte) (r rune, ok bool) {
	if len(text) < len(`\ud800`) || string(text[:2]) != `\u` || text[2]|' ' != 'd' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil && utf16.IsSurrogate(rune(n))
}
