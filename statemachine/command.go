package statemachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/invalid"
)

// Command is a message and its parameters: sent to a task, returned by a handler, or
// decided by an error handler. Its JSON is the value of commands/<task>.
type Command struct {
	// Message is the message.
	Message Message `json:"message"`
	// Until is when to wake up; required for Sleep, and set for nothing else.
	Until *time.Time `json:"until,omitempty"`
	// Error is the error's text; required for Error, and set for nothing else.
	Error string `json:"error,omitempty"`
	// By is who sent it, for people; at most CommandByBytesMax bytes, empty if not known.
	By string `json:"by,omitempty"`
}

// CommandByBytesMax is the maximum length of Command.By.
const CommandByBytesMax = 128

// SleepUntil returns the command to sleep until a time.
func SleepUntil(t time.Time) Command {
	t = t.UTC()
	return Command{Message: Sleep, Until: &t}
}

// Fail returns the command that carries an error.
func Fail(text string) Command { return Command{Message: Error, Error: text} }

// Validate returns a *windlass.BadInputError for a command that is incomplete or unknown.
func (c Command) Validate() error {
	switch {
	case !slices.Contains(Messages, c.Message):
		return &invalid.Input{Field: "message", Value: cut(string(c.Message), 64), Limit: "must be one of " + joinMessages(Messages)}
	case c.Message == Sleep && (c.Until == nil || c.Until.IsZero()):
		return &invalid.Input{Field: "until", Value: "", Limit: "sleep needs the time to wake up at"}
	case c.Message != Sleep && c.Until != nil:
		return &invalid.Input{Field: "until", Value: c.Until.Format(time.RFC3339), Limit: "only sleep has a time"}
	case c.Message == Error && c.Error == "":
		return &invalid.Input{Field: "error", Value: "", Limit: "error needs a text"}
	case c.Message != Error && c.Error != "":
		return &invalid.Input{Field: "error", Value: cut(c.Error, 64), Limit: "only error has a text"}
	case len(c.Error) > ErrorBytesMax:
		return &invalid.Input{Field: "error", Value: fmt.Sprintf("%d bytes", len(c.Error)), Limit: fmt.Sprintf("must be at most %d bytes", ErrorBytesMax)}
	case len(c.By) > CommandByBytesMax:
		return &invalid.Input{Field: "by", Value: cut(c.By, 64), Limit: fmt.Sprintf("must be at most %d bytes", CommandByBytesMax)}
	case c.Until != nil && c.Until.Year() > 9999:
		return &invalid.Input{Field: "until", Value: c.Until.Format(time.RFC3339), Limit: "must be before the year 10000"}
	}
	return nil
}

// ParseCommand parses the value of commands/<task>: JSON, or the plain message of the
// oldest layout.
func ParseCommand(value []byte) (Command, error) {
	text := bytes.TrimSpace(value)
	c := Command{Message: Message(text)}
	if len(text) > 0 && text[0] == '{' {
		c.Message = ""
		if err := json.Unmarshal(text, &c); err != nil {
			return Command{}, fmt.Errorf("command: %w", err)
		}
	}
	if err := c.Validate(); err != nil {
		return Command{}, fmt.Errorf("command: %w", err)
	}
	return c, nil
}

// Messages lists every Message.
var Messages = []Message{Run, Sleep, Pause, Release, Error, Kill, Complete, Checkpoint}

func joinMessages(messages []Message) string {
	words := make([]string, len(messages))
	for i, m := range messages {
		words[i] = string(m)
	}
	return strings.Join(words, ", ")
}
