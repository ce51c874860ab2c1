package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
)

// ServeHTTP implements http.Handler. Every request passes the same checks, in this
// order: the host it is addressed to, whether it is for a page, whether the endpoint
// exists, whether another web site sent it, who the caller is and what it may do, how
// often it may, and how much it sends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &answer{ResponseWriter: w}
	began := time.Now()
	t := &requestState{decoded: func() {}}
	var e *endpoint
	defer func() {
		if cause := recover(); cause != nil {
			s.failed(answer, r, t, cause)
		}
		if e != nil && e.changes() {
			s.audit(r, e, t, answer.status, began)
		}
	}()
	strictHeaders(w.Header())
	// Both fail where the connection has no deadlines, as in a test's recorder.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(began.Add(s.config.Limits.RequestTimeout + s.config.Limits.WriteTimeout))
	if r.ContentLength != 0 {
		// It also bounds how long net/http reads a body that no handler has read. Without a
		// body it must not be set, because the server then reads to notice that the client
		// leaves.
		_ = control.SetReadDeadline(began.Add(s.config.Limits.BodyTimeout))
	}
	refuse := func(p *Problem) {
		t.code = p.Code
		p.refuse(answer, r)
	}
	if p := s.checkHost(r); p != nil {
		e, _ = s.find(r) // for the audit log
		refuse(p)
		return
	}
	if s.servePage(answer, r) {
		return
	}
	var p *Problem
	if e, p = s.find(r); p == nil {
		t.caller, p = s.admit(answer, r, e)
	}
	if p != nil {
		if p.Status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", strings.Join(s.allowed(r), ", "))
		}
		refuse(p)
		return
	}
	ctx := windlass.WithCaller(context.WithValue(r.Context(), requestStateKey{}, t), t.caller.Name)
	if e.works() {
		if p := s.budget.enter(t.caller); p != nil {
			refuse(p)
			return
		}
		defer s.budget.leave(t.caller)
		defer t.release()
	}
	ctx, cancel := e.limitTime(ctx, s.config.Limits, control, began)
	defer cancel()
	if e.hasBody && r.ContentLength != 0 {
		if p := s.readBody(ctx, r, e, t); p != nil {
			refuse(p)
			return
		}
	}
	s.mux.ServeHTTP(answer, r.WithContext(ctx))
}

// limitTime ends a request that is no stream once it has taken as long as it may.
func (e *endpoint) limitTime(ctx context.Context, limits Limits, control *http.ResponseController, began time.Time) (context.Context, context.CancelFunc) {
	if e.Stream {
		return ctx, func() {}
	}
	wait := limits.RequestTimeout
	if e.Waits {
		wait += limits.WaitMax
		_ = control.SetWriteDeadline(began.Add(wait + limits.WriteTimeout))
	}
	return context.WithTimeout(ctx, wait)
}

// answer remembers the status, for the audit log.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(content []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(content)
}

// Unwrap lets http.ResponseController find what it controls.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// failed answers a request that panicked, if it has no answer yet.
func (s *Server) failed(w *answer, r *http.Request, t *requestState, cause any) {
	err, isError := cause.(error)
	switch {
	case isError && errors.Is(err, http.ErrAbortHandler):
		panic(cause)
	case isError && w.status != 0: // huma panics if it cannot write an answer, mostly because the client has gone
		s.config.Logger.Debug("an answer was not written", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
		return
	}
	s.config.Logger.Error("a request failed", "method", r.Method, "path", r.URL.EscapedPath(), "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if w.status == 0 {
		t.code = codeInternal
		problem(http.StatusInternalServerError, codeInternal, "the server failed; its log says why").write(w)
	}
}

// strictHeaders sets the headers of every answer, which must not be cached, framed, sniffed
// or read by other sites. The dashboard's pages have their own policy.
func strictHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// loopbackHosts are host names that no web site can have.
var loopbackHosts = []string{"localhost", "127.0.0.1", "[::1]"}

// checkHost refuses requests to other host names. Pages of a web site whose name resolves
// to this address send those.
func (s *Server) checkHost(r *http.Request) *Problem {
	hosts := s.config.Hosts
	if len(hosts) == 0 {
		hosts = loopbackHosts
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		if name = host; strings.Contains(host, ":") {
			name = "[" + host + "]"
		}
	}
	if slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, r.Host) || strings.EqualFold(host, name) }) {
		return nil
	}
	return problem(http.StatusMisdirectedRequest, "host", "this server is not called %q", shown(r.Host)).
		about("Host", shown(r.Host), "must be one of "+strings.Join(hosts, ", "))
}

// find returns the endpoint of a request. Paths with "..", "//" and the like have none; they
// are not cleaned.
func (s *Server) find(r *http.Request) (*endpoint, *Problem) {
	none := problem(http.StatusNotFound, "no_endpoint", "there is nothing at %q", shown(r.URL.EscapedPath()))
	escaped := r.URL.EscapedPath()
	if path.Clean(r.URL.Path) != r.URL.Path || path.Clean(escaped) != escaped {
		return nil, none
	}
	_, pattern := s.mux.Handler(r)
	if e := s.endpoints[pattern]; e != nil {
		return e, nil
	}
	if len(s.allowed(r)) > 0 {
		return nil, problem(http.StatusMethodNotAllowed, "method", "%s is not possible at %q", shown(r.Method), shown(escaped))
	}
	return nil, none
}

// allowed returns the methods of a path.
func (s *Server) allowed(r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); s.endpoints[pattern] != nil {
			methods = append(methods, method)
		}
	}
	return methods
}

// admit identifies the caller and refuses a request that it may not make.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, e *endpoint) (Caller, *Problem) {
	if err := s.checkOrigin(r); err != nil {
		return Caller{}, problem(http.StatusForbidden, "cross_origin", "the request comes from another web site: %v", err)
	}
	if e.Public {
		// No rate limit: others with the probe's address could use it up, and the failing
		// probe would end this process. These endpoints cost the broker nothing.
		return Caller{}, nil
	}
	caller, known := s.identify(r)
	if !known {
		if p := s.limit("unknown " + addressOf(r)); p != nil {
			return Caller{}, p
		}
		if s.config.open() {
			return Caller{}, problem(http.StatusForbidden, "not_local", "without tokens this server answers only requests from this machine")
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		return Caller{}, problem(http.StatusUnauthorized, "unauthorized", "a valid token is needed, as \"Authorization: Bearer TOKEN\"")
	}
	key := "caller " + caller.Name
	if s.config.open() {
		key = "address " + addressOf(r)
	}
	if p := s.limit(key); p != nil {
		return caller, p
	}
	switch {
	case caller.Role < e.Role:
		return caller, problem(http.StatusForbidden, "role", "this needs the role %s, and %q has the role %s", e.Role, caller.Name, caller.Role)
	case s.config.ReadOnly && e.changes():
		return caller, problem(http.StatusForbidden, "read_only", "this server changes nothing")
	}
	if p := checkQuery(r, e.single); p != nil {
		return caller, p
	}
	return caller, s.checkBody(r, e)
}

// checkOrigin refuses requests from pages of other web sites. They cannot read the answer
// to a GET, but it would cost a listing or the place of a viewer. A request for a document
// is a link that a user follows.
func (s *Server) checkOrigin(r *http.Request) error {
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Sec-Fetch-Dest") != "document" {
		asChange := *r // because Check accepts every GET and HEAD
		asChange.Method = http.MethodPost
		r = &asChange
	}
	return s.origins.Check(r)
}

// shareOf returns how much of a limit callers of a role may use together. A quarter is kept
// free of viewers.
func shareOf(limit int, role Role) int {
	if role <= RoleView {
		return max(1, limit*3/4)
	}
	return limit
}

// identify returns the caller of a request.
func (s *Server) identify(r *http.Request) (Caller, bool) {
	if s.config.Authenticate != nil {
		if caller, ok := s.config.Authenticate(r); ok {
			return caller, true
		}
	}
	if s.config.open() {
		return Caller{Name: "local", Role: max(s.config.LocalRole, RoleView)}, isLocal(r)
	}
	if token, ok := bearer(r); ok {
		if s.config.Tokens == nil {
			return Caller{}, false
		}
		return s.config.Tokens.Find(token) // a certificate does not make up for a wrong token
	}
	if s.config.CertificateRole != 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return Caller{Name: "cert:" + r.TLS.VerifiedChains[0][0].Subject.CommonName, Role: s.config.CertificateRole}, true
	}
	return Caller{}, false
}

// bearer returns the token of a request, and whether it has an Authorization header.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", len(values) > 0
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(token), true
}

// isLocal reports whether a request comes from this machine.
func isLocal(r *http.Request) bool {
	_, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return unix || isLoopback(r.RemoteAddr)
}

// addressOf returns the address of a request's sender, without the port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *Server) limit(key string) *Problem {
	if s.limiter.allow(key) {
		return nil
	}
	l := s.config.Limits
	p := problem(http.StatusTooManyRequests, "rate", "too many requests").
		about("rate", "exceeded", fmt.Sprintf("must be at most %g a second, and %d at once", l.Rate, l.RateBurst))
	p.retryAfter = max(1, int(1/l.Rate))
	return p
}

// checkQuery refuses a query that cannot be parsed in full: a filter must not be dropped
// and select everything. Nor may one be empty, as the variable of a script can be; to huma
// that is none. The parameters that were there before are taken as ever, but one that has a single value,
// which huma takes from the first.
func checkQuery(r *http.Request, single []string) *Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem(http.StatusUnprocessableEntity, "invalid", "the query cannot be read: %v", err).
			about("query", shown(r.URL.RawQuery), "must be escaped as a URL's query is")
	}
	for _, name := range []string{"tag", "since"} {
		if slices.Contains(query[name], "") {
			return problem(http.StatusUnprocessableEntity, "invalid", "%s: must not be empty", name).about(name, "", "must not be empty")
		}
	}
	for _, name := range single {
		if values := query[name]; len(values) > 1 {
			return problem(http.StatusUnprocessableEntity, "invalid", "%s: must be given once", name).about(name, shown(values[1]), "must be given once")
		}
	}
	return nil
}

// sendsBody reports whether a request has a body. One without a length may yet be empty.
func sendsBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	n, _ := io.ReadFull(r.Body, make([]byte, 1)) // that it cannot be read is no body
	return n > 0
}

// checkBody checks the length and type of a body by the header. Only JSON is accepted, and
// merge patches by their own name: web pages can send other types to a server that has not
// allowed it.
func (s *Server) checkBody(r *http.Request, e *endpoint) *Problem {
	if most := s.config.Limits.BodyBytesMax; r.ContentLength > most {
		return tooLarge(r.ContentLength, most)
	}
	switch {
	case !e.hasBody && sendsBody(r):
		limit := "must be empty: the path and the query have all that this operation takes"
		return problem(http.StatusUnprocessableEntity, "invalid", "body: %s", limit).about("body", "", limit)
	case !e.hasBody || r.ContentLength == 0:
		return nil
	}
	unsupported := func(header, must string) *Problem {
		return problem(http.StatusUnsupportedMediaType, "media_type", "the body must be %s", must).
			about(header, shown(r.Header.Get(header)), "must be "+must)
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch charset, encoding := parameters["charset"], r.Header.Get("Content-Encoding"); {
	case err != nil || !slices.Contains(e.bodyTypes(), media):
		return unsupported("Content-Type", strings.Join(e.bodyTypes(), " or "))
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return unsupported("Content-Type", media+" in UTF-8")
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return unsupported("Content-Encoding", "as it is, without an encoding")
	}
	return nil
}
