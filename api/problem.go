package api

import (
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
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/tree"
)

// Problem is an error response: RFC 9457, application/problem+json. Its JSON is stable,
// and so are the codes.
type Problem struct {
	// Title is the status in words.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what happened to this request.
	Detail string `json:"detail"`
	// Code is for programs to branch on.
	Code string `json:"code"`
	// Field, Value and Limit describe an invalid input.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Limit string `json:"limit,omitempty"`
	// Others lists further mistakes in the same input.
	Others []Mistake `json:"others,omitempty"`

	retryAfter int // in seconds, zero for nothing to say
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

// GetStatus makes it an error that huma returns unchanged.
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
	problemType = "application/problem+json"
)

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// write answers a problem outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = writeJSON(w, p) // the client has gone
}

// refuse answers a request whose body was not read. The connection ends, or the
// answer would wait until the body has come.
func (p *Problem) refuse(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	p.write(w)
}

// codeInternal is that of what no other code is about.
const codeInternal = "internal"

// retryAfterBroker is in how many seconds a broker that is away is worth another try.
const retryAfterBroker = 2

// statuses is the one table from errors to statuses and codes; the first match
// counts.
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
	{windlass.ErrLayout, http.StatusInternalServerError, "layout"},
}

// problemIn is the problem of an error of a request. That its time is over comes
// first: what the broker says then is a consequence. A broker that does not answer
// within the time that its adapter gives it is away.
func problemIn(ctx context.Context, err error) *Problem {
	var p *Problem
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.As(err, &p) {
		return problem(http.StatusGatewayTimeout, "timeout", "%v", err)
	}
	return problemOf(err)
}

// problemOf is the problem of an error.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var input *windlass.BadInputError
	if errors.As(err, &input) {
		p = problem(http.StatusUnprocessableEntity, "invalid", "%v", err)
		p.Field, p.Value, p.Limit = input.Field, shorten.To(input.Value, 80), input.Limit
		return p
	}
	var config *election.ConfigError
	if errors.As(err, &config) {
		p = problem(http.StatusUnprocessableEntity, "invalid", "%v", err)
		p.Field, p.Limit = config.Field, config.Cause.Error()
		return p
	}
	for _, row := range statuses {
		if errors.Is(err, row.err) {
			p = problem(row.status, row.code, "%v", err)
			if row.status == http.StatusServiceUnavailable {
				p.retryAfter = retryAfterBroker
			}
			return p
		}
	}
	return problem(http.StatusInternalServerError, codeInternal, "%v", err)
}

// asProblem turns the errors that huma makes itself into problems. It is a
// transformer of this API alone: huma's own hook for that is one variable for the
// whole process, and the process may be somebody else's.
func asProblem(_ huma.Context, status string, body any) (any, error) {
	if _, done := body.(*Problem); done {
		return body, nil
	}
	failed, ok := body.(huma.StatusError)
	if !ok {
		return body, nil
	}
	code, known := frameworkCodes[failed.GetStatus()]
	if !known {
		code = codeInternal
	}
	p := problem(failed.GetStatus(), code, "%s", failed.Error())
	var model *huma.ErrorModel
	if !errors.As(error(failed), &model) {
		return p, nil
	}
	// A body may have as many mistakes as it has bytes; who is told of them is one.
	for i, detail := range model.Errors[:min(len(model.Errors), mistakesMax+1)] {
		if detail == nil {
			continue
		}
		m := Mistake{Field: detail.Location, Value: shown(detail.Value), Limit: detail.Message}
		if m.Field == "body" && failed.GetStatus() == http.StatusBadRequest {
			m.Value = "" // it is the whole of it
		}
		if i == 0 {
			p.Field, p.Value, p.Limit = m.Field, m.Value, m.Limit
			p.Detail = strings.TrimSpace(fmt.Sprintf("%s: %s", m.Field, m.Limit))
			continue
		}
		p.Others = append(p.Others, m)
	}
	return p, nil
}

// mistakesMax bounds the mistakes that a problem lists beside the first.
const mistakesMax = 20

// frameworkCodes are the codes of what huma refuses by itself.
var frameworkCodes = map[int]string{
	http.StatusBadRequest:            "malformed",
	http.StatusRequestTimeout:        "slow_body",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusUnsupportedMediaType:  "media_type",
	http.StatusUnprocessableEntity:   "invalid",
}

// shown is a value as a problem names it. An object or a list is not: it may be the
// whole body, which would be written anew for each mistake in it.
func shown(value any) string {
	const most = 80
	switch value.(type) {
	case map[string]any, []any:
		return ""
	}
	text, isText := value.(string)
	if !isText && value != nil {
		encoded, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		text = string(encoded)
	}
	return shorten.To(text, most)
}
