package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/tree"
)

// Problem is an error response: RFC 9457, application/problem+json. Its JSON is stable,
// and so are the codes.
type Problem struct {
	// Title is the status in words.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail describes the error for people.
	Detail string `json:"detail"`
	// Code is for programs to branch on.
	Code string `json:"code"`
	// Field, Value and Limit describe an invalid input.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Limit string `json:"limit,omitempty"`
	// Others lists further mistakes in the same input.
	Others []Mistake `json:"others,omitempty"`

	retryAfter int // in seconds, zero for none
}

// Mistake describes an invalid input.
type Mistake struct {
	Field string `json:"field"`
	Value string `json:"value"`
	Limit string `json:"limit"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// MarshalJSON implements json.Marshaler. It shortens the caller's own input.
func (p *Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	c := plain(*p)
	c.Detail, c.Field = shorten.To(c.Detail, detailBytesMax), shorten.To(c.Field, detailBytesMax)
	return json.Marshal(c)
}

// detailBytesMax bounds each text of a problem.
const detailBytesMax = 1024

// GetStatus implements huma.StatusError, so that huma returns it unchanged.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return problemType }

// GetHeaders returns the headers of the response.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	return h
}

var (
	_ huma.StatusError       = (*Problem)(nil)
	_ huma.HeadersError      = (*Problem)(nil)
	_ huma.ContentTypeFilter = (*Problem)(nil)
)

const (
	jsonType    = "application/json"
	patchType   = "application/merge-patch+json" // RFC 7396
	problemType = "application/problem+json"
)

// fields are the names in JSON and in paths of what the library names in words.
var fields = map[string]string{
	"task ID": "id", "job path": "path", "job name": "name", "job type": "type", "parent path": "parent", "parent name": "under.name", "parent type": "under.type",
	"pattern name": "name_matches", "pattern type": "type_matches", "name function": "name_template",
	"node name": "name", "election name": "name", "candidate name": "candidate",
}

// fieldOf returns the name of an input in JSON.
func fieldOf(bad *windlass.BadInputError) string { return cmp.Or(fields[bad.Field], bad.Field) }

// inItem is an error of an item of a list, with its place.
func inItem(i int, err error) error {
	if bad, is := errors.AsType[*windlass.BadInputError](err); is {
		return badInput(fmt.Sprintf("body[%d].%s", i, fieldOf(bad)), bad.Value, bad.Limit)
	}
	return fmt.Errorf("body[%d]: %w", i, err)
}

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// about sets which input is wrong, and returns p.
func (p *Problem) about(field, value, limit string) *Problem {
	p.Field, p.Value, p.Limit = field, value, limit
	return p
}

// write answers a request outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = writeJSON(w, p) // the client has gone
}

// refuse answers a request whose body was not read. It ends the connection, or the answer
// would wait for the body.
func (p *Problem) refuse(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	p.write(w)
}

// codeInternal is the code of errors without another code.
const codeInternal = "internal"

// retryAfterBroker is the Retry-After in seconds while the broker is unreachable.
const retryAfterBroker = 2

// statuses maps errors to statuses and codes; the first match counts.
var statuses = []struct {
	err    error
	status int
	code   string
}{
	{windlass.ErrNotFound, http.StatusNotFound, "not_found"},
	{windlass.ErrEmpty, http.StatusNotFound, "empty"},
	{windlass.ErrNoParent, http.StatusNotFound, "no_match"},
	{tree.ErrNoMatch, http.StatusNotFound, "no_match"},
	{election.ErrNoLeader, http.StatusNotFound, "no_leader"},
	{windlass.ErrWorking, http.StatusConflict, "working"},
	{windlass.ErrFenced, http.StatusConflict, "fenced"},
	{windlass.ErrExists, http.StatusConflict, "exists"},
	{windlass.ErrFinished, http.StatusConflict, "finished"},
	{commands.ErrNeeded, http.StatusConflict, "needed"},
	{windlass.ErrNoInput, http.StatusConflict, "no_input"},
	{windlass.ErrSuperseded, http.StatusConflict, "superseded"},
	{windlass.ErrDiscarded, http.StatusConflict, "discarded"},
	{windlass.ErrNameTaken, http.StatusConflict, "name_taken"},
	{election.ErrNotLeader, http.StatusConflict, "not_leader"},
	{broker.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{broker.ErrNoSpace, http.StatusServiceUnavailable, "broker_full"},
	{broker.ErrNoQuorum, http.StatusServiceUnavailable, "broker_no_quorum"},
	{broker.ErrPermission, http.StatusServiceUnavailable, "broker_permission"},
	{broker.ErrUnavailable, http.StatusServiceUnavailable, "broker_unavailable"},
	{broker.ErrClosed, http.StatusServiceUnavailable, "broker_unavailable"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout"},
	{windlass.ErrUnmetNeed, http.StatusConflict, "unmet_need"}, // unless the broker is the cause
	{windlass.ErrLayout, http.StatusInternalServerError, "layout"},
}

// problemIn returns the problem of an error of a request. If the request's time is over,
// that is the problem: errors of the broker are its consequence. A timeout of the broker's
// driver alone means that the broker is unreachable.
func problemIn(ctx context.Context, err error) *Problem {
	if _, ok := errors.AsType[*Problem](err); !ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return problem(http.StatusGatewayTimeout, "timeout", "%v", err)
	}
	return problemOf(err)
}

// problemOf returns the problem of an error.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if input, ok := errors.AsType[*windlass.BadInputError](err); ok {
		return problem(http.StatusUnprocessableEntity, "invalid", "%v", err).about(fieldOf(input), shorten.To(input.Value, 80), input.Limit)
	}
	for _, row := range statuses {
		if errors.Is(err, row.err) {
			p := problem(row.status, row.code, "%v", err)
			if row.status == http.StatusServiceUnavailable {
				p.retryAfter = retryAfterBroker
			}
			return p
		}
	}
	return problem(http.StatusInternalServerError, codeInternal, "%v", err)
}

// asProblem turns huma's own errors into problems. It is a transformer because huma's hook
// for errors is a variable of the whole process, which may have other users of huma.
func asProblem(ctx huma.Context, status string, body any) (any, error) {
	if p, done := body.(*Problem); done {
		stateOf(ctx.Context()).code = p.Code
		return body, nil
	}
	failed, ok := body.(huma.StatusError)
	if !ok {
		return body, nil
	}
	code := codeInternal
	if failed.GetStatus() == http.StatusUnprocessableEntity {
		code = "invalid"
	}
	stateOf(ctx.Context()).code = code
	p := problem(failed.GetStatus(), code, "%s", failed.Error())
	model, ok := errors.AsType[*huma.ErrorModel](failed)
	if !ok {
		return p, nil
	}
	for _, detail := range model.Errors {
		if detail != nil {
			if strings.HasPrefix(detail.Message, "invalid date/time") { // it goes on with the layout of Go
				detail.Message = "must be a time such as 2026-01-02T15:04:05Z"
			}
			p.add(Mistake{Field: detail.Location, Value: shown(detail.Value), Limit: detail.Message})
		}
	}
	return p, nil
}

// add adds a mistake. A body may have as many as bytes.
func (p *Problem) add(m Mistake) {
	switch {
	case p.Field == "":
		p.about(m.Field, m.Value, m.Limit)
		p.Detail = strings.TrimSpace(fmt.Sprintf("%s: %s", m.Field, m.Limit))
	case len(p.Others) < mistakesMax:
		p.Others = append(p.Others, m)
	}
}

// mistakesMax bounds the mistakes that a problem lists beside the first.
const mistakesMax = 20

// shown returns a value as problems show it. Objects and lists are not shown: one may be the
// whole body, which would be written again for each mistake in it.
func shown(value any) string {
	var text string
	switch value := value.(type) {
	case map[string]any, []any, nil:
	case string:
		text = value
	default:
		encoded, _ := json.Marshal(value) // after an error it is empty
		text = string(encoded)
	}
	return shorten.To(text, 80)
}
