// Package nodecommand has the commands to a node as they are stored: the operator writes them, the node parses them.
package nodecommand

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/stored"
)

// The names of the commands; see package operate.
const (
	Freeze   = "freeze"
	Unfreeze = "unfreeze"
	Balance  = "balance"
	StopTask = "stop_task"
	Drain    = "drain"
)

// Names lists them.
var Names = []string{Freeze, Unfreeze, Balance, StopTask, Drain}

// Limits of a drain.
const (
	// DrainRateDefault is how many tasks per second a drain releases.
	DrainRateDefault = 200
	// DrainRateMax limits the rate that a command may ask for.
	DrainRateMax = 100_000
	// DrainWithinMax limits the time that a drain may be given.
	DrainWithinMax = 24 * time.Hour
)

// Command is the value of nodes/<node>/commands/<id>.
type Command struct {
	Command    string          `json:"command"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Parse parses a command: JSON, or the plain name used in the oldest layout.
func Parse(value []byte) (Command, error) {
	text := strings.TrimSpace(string(value))
	if !strings.HasPrefix(text, "{") {
		return Command{Command: text}, nil
	}
	var c Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Command{Command: shorten.To(text, 80)}, fmt.Errorf("malformed: %w", err)
	}
	return c, nil
}

// Check refuses a command that every node would discard.
func (c Command) Check() error {
	if !slices.Contains(Names, c.Command) {
		return &invalid.Input{Field: "command", Value: c.Command, Limit: "must be one of " + strings.Join(Names, ", ")}
	}
	switch c.Command {
	case StopTask:
		_, err := c.Task()
		return err
	case Drain:
		_, _, err := c.Pace()
		return err
	}
	return c.decode(&struct{}{})
}

// decode parses the parameters strictly: a misspelt one must not silently do something else.
func (c Command) decode(into any) error {
	if len(c.Parameters) == 0 {
		return nil
	}
	if fault := stored.Check(c.Parameters, into, stored.Bounds{}); fault != nil {
		return c.wrong(fault.Error())
	}
	if err := json.Unmarshal(c.Parameters, into); err != nil {
		return c.wrong(err.Error())
	}
	return nil
}

func (c Command) wrong(limit string) error {
	return &invalid.Input{Field: "parameters", Value: string(c.Parameters), Limit: limit}
}

// Task returns the ID of the task that StopTask is about.
func (c Command) Task() (string, error) {
	var p struct {
		Task string `json:"task"`
	}
	if err := c.decode(&p); err != nil {
		return "", err
	}
	if p.Task == "" {
		return "", c.wrong(`must be {"task": ID}`)
	}
	return p.Task, nil
}

// Pace returns the pace of a Drain; within takes precedence if it is not zero.
func (c Command) Pace() (perSecond int, within time.Duration, err error) {
	p := struct {
		PerSecond int    `json:"per_second"`
		Within    string `json:"within"`
	}{PerSecond: DrainRateDefault}
	if err := c.decode(&p); err != nil {
		return 0, 0, err
	}
	if p.PerSecond < 1 || p.PerSecond > DrainRateMax {
		return 0, 0, &invalid.Input{Field: "per_second", Value: fmt.Sprint(p.PerSecond), Limit: fmt.Sprintf("must be from 1 to %d", DrainRateMax)}
	}
	if p.Within == "" {
		return p.PerSecond, 0, nil
	}
	within, err = time.ParseDuration(p.Within)
	if err != nil || within < schedule.DrainTick || within > DrainWithinMax {
		return 0, 0, &invalid.Input{Field: "within", Value: p.Within, Limit: fmt.Sprintf("must be a duration from %v to %v", schedule.DrainTick, DrainWithinMax)}
	}
	return p.PerSecond, within, nil
}
