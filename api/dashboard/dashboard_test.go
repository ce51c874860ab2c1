package dashboard

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sourcesHash is what web/scripts/finish.mjs writes into dist.
func sourcesHash(root fs.FS) (string, error) {
	var names []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return fs.SkipDir
		case !entry.IsDir():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s\n%d\n", name, len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func TestDist_WasBuiltFromTheSourcesThatAreHere(t *testing.T) {
	want, err := sourcesHash(os.DirFS("web"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := dist.ReadFile("dist/.sources")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(got)) != want {
		t.Error("dist was built from other sources; run: make dashboard")
	}
}

// budget is what all files together may take on the way to a browser, in bytes.
const budget = 120_000

func TestDist_IsSmall(t *testing.T) {
	total := 0
	for name, f := range New().files {
		t.Logf("%s: %d bytes, %d compressed", name, len(f.plain), len(f.compressed))
		total += len(f.compressed)
	}
	t.Logf("%d bytes compressed, of %d", total, budget)
	if total > budget {
		t.Errorf("all files together have %d bytes, compressed; the budget is %d", total, budget)
	}
}

// loaded are the ways in which a page, a style sheet or a script loads something.
var loaded = regexp.MustCompile(`(?i)(?:src|href)\s*=\s*["']?([^"'\s>]+)|url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)|(?:fetch|import|Worker|URL)\(\s*["'` + "`" + `]([^"'` + "`" + `]+)`)

// elsewhere finds what is loaded from other servers.
func elsewhere(text string) (found []string) {
	for _, m := range loaded.FindAllStringSubmatch(text, -1) {
		for _, target := range m[1:] {
			if strings.Contains(target, "//") && !strings.HasPrefix(target, "data:") {
				found = append(found, target)
			}
		}
	}
	return found
}

// inline are scripts and handlers within a page, which the policy refuses.
var inline = regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\sstyle\s*=|\son[a-z]+\s*=\s*["']|javascript:`)

func TestDist_LoadsNothingFromElsewhereAndHasNoInlineScript(t *testing.T) {
	for name, f := range New().files {
		if found := elsewhere(string(f.plain)); len(found) > 0 {
			t.Errorf("%s loads %q", name, found)
		}
	}
	page := string(New().files["/"].plain)
	if found := inline.FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !New().Has("/" + m[1]) {
			t.Errorf("the page loads %s, which is not there", m[1])
		}
	}
}

func TestDist_ChecksFail(t *testing.T) {
	for _, bad := range []string{`<script src="https://a/b.js">`, `@import "//a/b.css"`, `url(http://a/b.png)`, `fetch("https://a")`, `import('https://a/x.js')`} {
		if len(elsewhere(bad)) != 1 {
			t.Errorf("%s is not found", bad)
		}
	}
	for _, bad := range []string{`<script>x()</script>`, `<p onclick="x()">`, `<p style="color: red">`, `<a href="javascript:x()">`} {
		if !inline.MatchString(bad) {
			t.Errorf("%s is not found", bad)
		}
	}
	if inline.MatchString(`<script type="module" src="./a.js"></script>`) || len(elsewhere(`<script src="./a.js"></script>`)) > 0 {
		t.Error("what is fine is refused")
	}
	dir := t.TempDir()
	hashes := map[string]bool{}
	for _, content := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, "x.ts"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		hash, err := sourcesHash(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		hashes[hash] = true
	}
	if len(hashes) != 2 {
		t.Error("other sources have the same hash")
	}
}

func get(t *testing.T, method, at string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost/", nil)
	r.URL.Path, r.Header = at, header
	if header == nil {
		r.Header = http.Header{}
	}
	w := httptest.NewRecorder()
	New().ServeHTTP(w, r)
	return w
}

func TestPages_AreServedWithStrictHeadersAndNothingElseIs(t *testing.T) {
	for name := range New().files {
		w := get(t, "GET", name, nil)
		if w.Code != 200 || w.Body.Len() == 0 || w.Header().Get("Content-Type") == "" {
			t.Fatalf("%s: %d, %d bytes of %q", name, w.Code, w.Body.Len(), w.Header().Get("Content-Type"))
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: the policy is %s", name, csp)
		}
		for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Vary": "Accept-Encoding"} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		want := "no-cache"
		if path.Dir(name) == "/assets" {
			want = "public, max-age=31536000, immutable"
		}
		if got := w.Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control is %q, want %q", name, got, want)
		}
	}
	for _, odd := range []string{"", "/.sources", "/index.html", "/assets", "/assets/", "//", "/assets/../index.html", "/web/package.json"} {
		if w := get(t, "GET", odd, nil); w.Code != 404 || New().Has(odd) {
			t.Errorf("%q: %d", odd, w.Code)
		}
	}
	if w := get(t, "POST", "/", nil); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, %q", w.Code, w.Header().Get("Allow"))
	}
	if w := get(t, "HEAD", "/", nil); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
	}
}

func TestPages_AreCompressedAndNotSentAgain(t *testing.T) {
	plain := get(t, "GET", "/", nil)
	compressed := get(t, "GET", "/", http.Header{"Accept-Encoding": {"br, gzip;q=0.8"}})
	if compressed.Header().Get("Content-Encoding") != "gzip" || compressed.Header().Get("ETag") == plain.Header().Get("ETag") {
		t.Fatalf("the headers are %v and %v", plain.Header(), compressed.Header())
	}
	unpacked, err := decompress(compressed.Body)
	if err != nil || unpacked != plain.Body.String() {
		t.Errorf("%v: it is %q", err, unpacked)
	}
	for _, refused := range []string{"gzip;q=0", "br", "gzip; q=x", ""} {
		if w := get(t, "GET", "/", http.Header{"Accept-Encoding": {refused}}); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%q is taken for gzip", refused)
		}
	}
	tag := plain.Header().Get("ETag")
	for _, known := range []string{tag, "W/" + tag, `"a", ` + tag, "*"} {
		if w := get(t, "GET", "/", http.Header{"If-None-Match": {known}}); w.Code != 304 || w.Body.Len() != 0 || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d with %d bytes", known, w.Code, w.Body.Len())
		}
	}
	if w := get(t, "GET", "/", http.Header{"If-None-Match": {`"other"`}}); w.Code != 200 {
		t.Errorf("another tag: %d", w.Code)
	}
}

func TestLockfile_NamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile("web/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"resolved"`) {
		t.Error(`it has "resolved"; .npmrc should keep it out`)
	}
}

func decompress(from io.Reader) (string, error) {
	r, err := gzip.NewReader(from)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}
