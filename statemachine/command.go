package statemachine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
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

// CommandError describes an invalid command.
type CommandError struct {
	// Field is "message", "until", "error" or "by", Value is its value, and Limit says what
	// is allowed.
	Field, Value, Limit string
}

// Error implements error.
func (e *CommandError) Error() string { return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Limit) }

// Validate returns a *CommandError for a command that is incomplete or unknown.
func (c Command) Validate() error {
	switch {
	case !slices.Contains(Messages, c.Message):
		return &CommandError{"message", cut(string(c.Message), 64), "must be one of " + joinMessages(Messages)}
	case c.Message == Sleep && (c.Until == nil || c.Until.IsZero()):
		return &CommandError{"until", "", "sleep needs the time to wake up at"}
	case c.Message != Sleep && c.Until != nil:
		return &CommandError{"until", c.Until.Format(time.RFC3339), "only sleep has a time"}
	case c.Message == Error && c.Error == "":
		return &CommandError{"error", "", "error needs a text"}
	case c.Message != Error && c.Error != "":
		return &CommandError{"error", cut(c.Error, 64), "only error has a text"}
	case len(c.Error) > ErrorBytesMax:
		return &CommandError{"error", fmt.Sprintf("%d bytes", len(c.Error)), fmt.Sprintf("must be at most %d bytes", ErrorBytesMax)}
	case len(c.By) > CommandByBytesMax:
		return &CommandError{"by", cut(c.By, 64), fmt.Sprintf("must be at most %d bytes", CommandByBytesMax)}
	case c.Until != nil && c.Until.Year() > 9999:
		return &CommandError{"until", c.Until.Format(time.RFC3339), "must be before the year 10000"}
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
