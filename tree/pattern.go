package tree

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/shorten"
)

// PatternBytesMax limits each of the expressions of a pattern, and PatternStepsMax what it takes to match it:
// one for each class of characters, repetition and alternative, as often as it is repeated, and one for each
// repeated character. A name is compared with as many steps at each of its characters, and a{1000} is
// a thousand of them.
const (
	PatternBytesMax = 1000
	PatternStepsMax = 200
)

// Pattern selects jobs by their own name and type, whatever their ancestors. Both are
// regular expressions in Go's syntax that must match the whole text, so a plain name
// selects only that name. An empty expression matches everything.
type Pattern struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// matcher is a compiled pattern. A nil expression matches everything.
type matcher struct{ name, jobType *regexp.Regexp }

// compile compiles the pattern of a parent, or to search by, for the names of its fields in errors.
func (p Pattern) compile(of string) (*matcher, error) {
	name, err := compileWhole(of+" name", p.Name)
	if err != nil {
		return nil, err
	}
	jobType, err := compileWhole(of+" type", p.Type)
	if err != nil {
		return nil, err
	}
	return &matcher{name: name, jobType: jobType}, nil
}

func (m *matcher) matches(name, jobType string) bool {
	return (m.name == nil || m.name.MatchString(name)) && (m.jobType == nil || m.jobType.MatchString(jobType))
}

// compileWhole anchors an expression at both ends.
func compileWhole(field, expression string) (*regexp.Regexp, error) {
	refuse := func(limit string) error {
		return &windlass.BadInputError{Field: field, Value: expression, Limit: limit}
	}
	if expression == "" {
		return nil, nil
	}
	if n := len(expression); n > PatternBytesMax {
		return nil, refuse(fmt.Sprintf("has %d bytes; the limit is %d", n, PatternBytesMax))
	}
	// It is parsed alone first: the parentheses around it would hide the error in "a)|(b",
	// which would not be anchored.
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, refuse("must be a regular expression: " + expressionProblem(err, expression))
	}
	if stepsOf(parsed, false) > PatternStepsMax {
		return nil, refuse(fmt.Sprintf("repeats too much: it takes more than %d steps at each character", PatternStepsMax))
	}
	whole, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil { // an unterminated \Q has quoted the closing parenthesis
		whole, err = regexp.Compile("^(?:" + expression + `\E)$`)
	}
	if err != nil { // it is at the limit of size or depth
		return nil, refuse("must be a simpler regular expression: " + expressionProblem(err, expression))
	}
	return whole, nil
}

// stepsOf counts the steps of an expression, up to some more than there may be. Those of characters count
// only if they are repeated: what is not is as long as it is written.
func stepsOf(e *syntax.Regexp, repeated bool) (n int) {
	copies := 1
	switch e.Op {
	case syntax.OpLiteral:
		if repeated {
			n = len(e.Rune)
		}
	case syntax.OpRepeat:
		if copies, repeated = e.Max, true; e.Max < 0 { // as often as it can be
			copies = e.Min + 1
		}
	case syntax.OpConcat, syntax.OpCapture:
	case syntax.OpAlternate:
		n = len(e.Sub)
	default:
		n = 1
	}
	for _, sub := range e.Sub {
		if n += stepsOf(sub, repeated); n > PatternStepsMax {
			break
		}
	}
	return min(n*copies, PatternStepsMax+1)
}

// expressionProblem says what is wrong, and where unless it is the whole expression.
func expressionProblem(err error, expression string) string {
	var e *syntax.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Expr == expression || e.Expr == "":
		return e.Code.String()
	}
	return fmt.Sprintf("%s at %q", e.Code, shorten.To(e.Expr, 80))
}
