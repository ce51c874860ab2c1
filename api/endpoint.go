package api

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// endpoint describes an operation of the API.
type endpoint struct {
	ID, Method, Path string
	Tag              string
	Summary          string
	Description      string
	// Role is the required role; zero means RoleView.
	Role Role
	// Public endpoints require no role.
	Public bool
	// Looks is true if it changes nothing although its method is not GET.
	Looks bool
	// Offline is true if it makes no call to the broker.
	Offline bool
	// Whole is true if it reads all tasks or jobs, however little it returns.
	Whole bool
	// Waits is true if the request may ask to wait, Stream if the answer continues
	// until the viewer leaves.
	Waits, Stream bool
	// Status is that of success, if it is not 200; Also is another.
	Status, Also int
	// Media is the media type of the answer if its Go type does not describe it.
	Media string
	// Errors lists the statuses of errors that other endpoints do not have.
	Errors []int

	hasBody bool
	body    reflect.Type // that it is decoded into
	schema  *huma.Schema // of the body
	single  []string     // the parameters of the query that have one value
}

// changes reports whether it changes anything.
func (e *endpoint) changes() bool { return e.Method != http.MethodGet && !e.Looks }

// bodyTypes returns the media types that a body may have.
func (e *endpoint) bodyTypes() []string {
	if e.Method == http.MethodPatch {
		return []string{jsonType, patchType}
	}
	return []string{jsonType}
}

// works reports whether it keeps the broker busy while it lasts.
func (e *endpoint) works() bool { return !e.Offline && !e.Public && !e.Stream }

// statuses returns the statuses of all errors that it can have. In addition there is
// 500, for what should not happen.
func (e *endpoint) statuses() []int {
	all := []int{http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity}
	if !e.Public {
		all = append(all, http.StatusTooManyRequests, http.StatusUnauthorized)
	}
	if !e.Offline {
		all = append(all, http.StatusServiceUnavailable)
		if !e.Stream && !e.Public {
			all = append(all, http.StatusGatewayTimeout)
		}
	}
	if e.hasBody {
		all = append(all, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	all = append(all, e.Errors...)
	slices.Sort(all)
	return slices.Compact(all)
}

// noBody is the input of an endpoint that takes nothing.
type noBody struct{}

// ok is an answer with a body.
type ok[T any] struct{ Body T }

// done is an answer without one.
type done struct{}

func answerWith[T any](body T, err error) (*ok[T], error) {
	if err != nil {
		return nil, err
	}
	return &ok[T]{body}, nil
}

// add registers an endpoint. Its input has a body if I has a field Sent.
func add[I, O any](s *Server, e endpoint, handle func(context.Context, *I) (*O, error)) {
	e.Role = max(e.Role, RoleView)
	var body reflect.StructField
	if body, e.hasBody = reflect.TypeFor[I]().FieldByName(sentField); e.hasBody {
		e.body = body.Type
	}
	op := huma.Operation{
		OperationID: e.ID, Method: e.Method, Path: e.Path, Tags: []string{e.Tag}, Summary: e.Summary, Description: e.Description,
		DefaultStatus: e.Status,
		Responses:     map[string]*huma.Response{}, Extensions: map[string]any{"x-windlass-role": e.Role.String()},
	}
	if e.Public {
		op.Security = []map[string][]string{{}}
		delete(op.Extensions, "x-windlass-role")
	}
	failure := map[string]*huma.MediaType{problemType: {
		Schema: s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem"),
	}}
	for _, status := range e.statuses() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: failure}
	}
	op.Responses["default"] = &huma.Response{Description: "An unexpected error", Content: failure}
	if e.Media != "" {
		op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{e.Media: {Schema: &huma.Schema{}}}}
	}
	huma.Register(s.huma, op, func(ctx context.Context, input *I) (*O, error) {
		if e.hasBody {
			if err := s.decode(ctx, &e, reflect.ValueOf(input).Elem().FieldByIndex(body.Index)); err != nil {
				return nil, err
			}
		}
		if e.Whole {
			if err := s.hold(ctx, s.config.Limits.ListMax); err != nil {
				return nil, problemIn(ctx, err)
			}
		}
		output, err := handle(ctx, input)
		if err != nil {
			return nil, problemIn(ctx, err)
		}
		return output, nil
	})
	for _, p := range s.operation(&e).Parameters {
		if p.In == "query" && p.Schema.Type != huma.TypeArray {
			e.single = append(e.single, p.Name)
		}
	}
	if e.hasBody {
		s.describeBody(&e, reflect.TypeFor[I]().Name())
	}
	if e.Also != 0 {
		o := s.operation(&e)
		first := o.Responses[strconv.Itoa(o.DefaultStatus)]
		o.Responses[strconv.Itoa(e.Also)] = &huma.Response{Description: http.StatusText(e.Also), Content: first.Content, Headers: first.Headers}
	}
	s.endpoints[e.Method+" "+s.config.Prefix+e.Path] = &e
}

// operation is the description of an endpoint.
func (s *Server) operation(e *endpoint) *huma.Operation {
	path := s.huma.OpenAPI().Paths[e.Path]
	return map[string]*huma.Operation{http.MethodGet: path.Get, http.MethodPost: path.Post, http.MethodPatch: path.Patch, http.MethodDelete: path.Delete}[e.Method]
}
