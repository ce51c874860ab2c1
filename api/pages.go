package api

import (
	"net/http"
	"strings"
)

// servePage answers a request for a page of the dashboard, and returns false if it is for
// none. The pages hold no data, so they need no token. Paths are compared as sent, without
// decoding or cleaning.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) bool {
	if s.pages == nil {
		return false
	}
	escaped := r.URL.EscapedPath()
	path, below := strings.CutPrefix(escaped, s.config.Prefix)
	bare := s.config.Prefix != "" && escaped == s.config.Prefix
	if !below || !bare && !s.pages.Has(path) {
		return false
	}
	switch p := s.limit("public " + addressOf(r)); {
	case p != nil:
		p.refuse(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		problem(http.StatusMethodNotAllowed, "method", "%s is not possible at %q", shown(r.Method), shown(escaped)).refuse(w, r)
	case bare: // without the slash, relative links of the page would leave the prefix
		w.Header().Set("Location", s.config.Prefix+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		request := r.Clone(r.Context())
		request.URL.Path, request.URL.RawPath = path, ""
		s.pages.ServeHTTP(w, request)
	}
	return true
}
