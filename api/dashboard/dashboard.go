package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// Pages are the files of the dashboard. Its methods are safe for concurrent use.
type Pages struct{ files map[string]*file }

type file struct {
	plain, compressed []byte
	kind              string // Content-Type
	tag               string // ETag of the plain contents, without quotes
	hashed            bool   // whether its name changes with its contents
}

// load reads and compresses the files, once in a process.
var load = sync.OnceValue(func() *Pages {
	p := &Pages{files: map[string]*file{}}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		content, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		at := strings.TrimPrefix(name, "dist")
		if at == "/index.html" {
			at = "/"
		}
		p.files[at], err = newFile(name, content)
		return err
	})
	if err != nil {
		panic(err) // the files are a part of the program
	}
	return p
})

// New returns the files that are embedded in the program.
func New() *Pages { return load() }

func newFile(name string, content []byte) (*file, error) {
	sum := sha256.Sum256(content)
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	extension := path.Ext(name)
	return &file{
		plain: content, compressed: b.Bytes(), kind: cmp.Or(kinds[extension], mime.TypeByExtension(extension)),
		tag: base64.RawURLEncoding.EncodeToString(sum[:12]), hashed: strings.HasPrefix(name, "dist/assets/"),
	}, nil
}

// kinds are the types of the files. The machine's own table may have other ones.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// Has reports whether there is a file at a path, which begins with a slash. It must be
// spelled exactly: nothing is decoded or cleaned.
func (p *Pages) Has(path string) bool { return p.files[path] != nil }

// policy lets the pages load and run only files of this server. Styles that scripts set do
// not count as inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// ServeHTTP implements http.Handler. The path of the request is the one below the
// prefix, with its slash at the beginning. Methods other than GET and HEAD return 405,
// and unknown paths 404.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.files[r.URL.Path]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are possible", http.StatusMethodNotAllowed)
		return
	}
	body, tag := f.plain, f.tag
	if takesGzip(r) {
		body, tag = f.compressed, f.tag+"-gz"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", strconv.Quote(tag))
	h.Set("Cache-Control", "no-cache")
	if f.hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if has(r.Header.Values("If-None-Match"), strconv.Quote(tag)) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client has gone
	}
}

// takesGzip reports whether a client accepts gzip.
func takesGzip(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			q, ok := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !ok || err == nil && weight > 0
		}
	}
	return false
}

// has reports whether a list of entity tags has one, weak or not.
func has(lines []string, tag string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
