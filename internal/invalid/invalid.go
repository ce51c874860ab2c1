// Package invalid has the error of what somebody has given wrongly.
package invalid

import (
	"fmt"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Input reports an invalid input. The root package has it as windlass.BadInputError.
type Input struct {
	// Field names the input, Value is its value, and Limit says what is allowed.
	Field, Value, Limit string
}

// Error implements error. It shortens a long value to its beginning.
func (i *Input) Error() string {
	return fmt.Sprintf("%s %q: %s", i.Field, shorten.To(i.Value, 80), i.Limit)
}
