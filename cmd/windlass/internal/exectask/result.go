package exectask

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Why is the reason for the end of a run. A run that was told to stop and then exited
// with 0 still has WhyStopped.
type Why string

// The reasons.
const (
	// WhyExited: the program ended by itself.
	WhyExited Why = "exited"
	// WhyStopped: the run's context ended, or the node closed or died.
	WhyStopped Why = "stopped"
	// WhyDeadline: the node's right to run things ended and was not renewed.
	WhyDeadline Why = "deadline"
)

// A Result is the outcome of a run of which no process is alive any more.
type Result struct {
	// Run is the run's own ID, the child's WINDLASS_RUN.
	Run string `json:"run"`
	// Pid was the program's process.
	Pid int `json:"pid"`
	// Code is the exit code, or -1 when a signal ended the program.
	Code int `json:"code"`
	// Signal is the signal's name, or empty.
	Signal string `json:"signal,omitempty"`
	// Why is the reason for the end.
	Why Why `json:"why"`
	// Outlived is how many processes were found alive when the program had ended by itself,
	// and were ended then. One that ended in that very moment may be missing.
	Outlived int `json:"outlived,omitempty"`
	// Started and Finished are the wall clock at start and end of the program.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Duration is the time between them by a monotonic clock.
	Duration time.Duration `json:"duration"`
	// Output is the end of standard output and error together.
	Output []byte `json:"output,omitempty"`
	// OutputBytes is how much the run wrote in all.
	OutputBytes int64 `json:"output_bytes"`
	// Truncated reports whether the run wrote more than Output.
	Truncated bool `json:"truncated,omitempty"`
	// LogError is why the log is incomplete, or empty. LogMissing is how much output it
	// lacks, as far as that is known.
	LogError   string `json:"log_error,omitempty"`
	LogMissing int64  `json:"log_missing,omitempty"`
}

// OK reports whether the program ended by itself with exit code 0.
func (r Result) OK() bool { return r.Why == WhyExited && r.Signal == "" && r.Code == 0 }

// Err is the outcome of a run that has failed, with the last line that it printed, which
// mostly says why.
func (r Result) Err() error {
	lines := strings.TrimRight(string(r.Output), " \t\r\n")
	line := strings.ToValidUTF8(strings.TrimSpace(lines[strings.LastIndexByte(lines, '\n')+1:]), "·")
	line = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '·' // it must not move the cursor of a terminal
	}, line)
	if line == "" {
		return errors.New(r.String())
	}
	return fmt.Errorf("%v: %s", r, shorten.To(line, lineBytesMax))
}

// lineBytesMax limits the line of output in an error.
const lineBytesMax = 256

// String returns one line for people.
func (r Result) String() string {
	end := fmt.Sprintf("exit code %d", r.Code)
	if r.Signal != "" {
		end = r.Signal
	}
	return fmt.Sprintf("%s: %s after %s%s", r.Why, end, r.Duration.Round(time.Millisecond), outlivedText(r.Outlived))
}

// outlivedText says that so many processes outlived their program, empty for none.
func outlivedText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 process that outlived it was ended"
	}
	return fmt.Sprintf(", and %d processes that outlived it were ended", n)
}
