package faulty

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error describes an error in the text of a plan.
type Error struct {
	// Line is the number of the line, counted from one; zero for the plan as a whole.
	Line int
	// Cause is the error.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return "fault plan: " + e.Cause.Error()
	}
	return fmt.Sprintf("fault plan: line %d: %v", e.Line, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Parse parses a plan: an optional line "seed <number>", and one line per rule:
//
//	<fault> [<duration>] [on <op>,<op>] [below "<key prefix>"] [call <n>] [chance <p>]
//
// Empty lines are skipped, and so are those that begin with #.
func Parse(text string) (*Plan, error) {
	p := &Plan{}
	seeded := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var err error
		if seed, ok := strings.CutPrefix(line, "seed "); ok && !seeded && len(p.Rules) == 0 {
			seeded = true
			p.Seed, err = strconv.ParseUint(strings.TrimSpace(seed), 10, 64)
		} else {
			var r Rule
			r, err = parseRule(line)
			p.Rules = append(p.Rules, r)
		}
		if err != nil {
			return nil, &Error{Line: number, Cause: err}
		}
	}
	if err := p.validate(); err != nil {
		return nil, &Error{Cause: err}
	}
	return p, nil
}

// MustParse is like Parse, for a plan written in the test itself, and panics on an
// invalid plan.
func MustParse(text string) *Plan {
	p, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return p
}

// clauses are the parts of a rule after its fault, in the required order.
var clauses = []string{"on", "below", "call", "chance"}

func parseRule(line string) (Rule, error) {
	words, err := split(line)
	if err != nil {
		return Rule{}, err
	}
	var r Rule
	if r.Fault, err = parseFault(words[0]); err != nil {
		return r, err
	}
	words = words[1:]
	if faults[r.Fault].duration {
		if len(words) == 0 {
			return r, fmt.Errorf("%v needs a duration", r.Fault)
		}
		if r.Duration, err = time.ParseDuration(words[0]); err != nil {
			return r, err
		}
		words = words[1:]
	}
	for _, clause := range clauses {
		if len(words) == 0 || words[0] != clause {
			continue
		}
		if len(words) == 1 {
			return r, fmt.Errorf("%q needs a value", clause)
		}
		if err := r.parseClause(clause, words[1]); err != nil {
			return r, fmt.Errorf("%s: %w", clause, err)
		}
		words = words[2:]
	}
	if len(words) > 0 {
		return r, fmt.Errorf("%q is unknown, repeated or out of order; the order is %s",
			words[0], strings.Join(clauses, ", "))
	}
	return r, r.validate()
}

func (r *Rule) parseClause(clause, value string) (err error) {
	switch clause {
	case "on":
		r.Ops, err = parseOps(value)
	case "below":
		r.Below, err = strconv.Unquote(value)
		if err == nil && r.Below == "" {
			err = errors.New("nothing is below an empty key")
		}
	case "call":
		r.Call, err = strconv.Atoi(value)
		if err == nil && r.Call < 1 {
			err = fmt.Errorf("%d; calls are counted from 1", r.Call)
		}
	case "chance":
		r.Chance, err = strconv.ParseFloat(value, 64)
		if err == nil && !(r.Chance > 0) {
			err = fmt.Errorf("%v; it is above 0 and at most 1", r.Chance)
		}
	}
	return err
}

// split divides a line into words. Quoted words may contain spaces.
func split(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		n := strings.IndexAny(line, " \t")
		if n < 0 {
			n = len(line)
		}
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("a quotation that does not end or is malformed: %s", line)
			}
			n = len(quoted)
		}
		words = append(words, line[:n])
		line = line[n:]
	}
	return words, nil
}
