package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
)

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func TestHost_OnlyTheNamesThatAreAllowedAreAnswered(t *testing.T) {
	b := newBench(t, nil)
	for _, name := range []string{"localhost", "LocalHost:8090", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8090"} {
		b.want(200, "", request("GET", "/v1/tasks", "", host(name)))
	}
	for _, name := range []string{"", "evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "localhost:80:80",
		"localhost@evil.example", "0.0.0.0", "[::]", "2130706433", "localhost."} {
		b.want(421, "host", request("GET", "/v1/tasks", "", host(name)))
		b.want(421, "host", request("GET", "/livez", "", host(name)))
	}
	named := newBench(t, func(c *Config) {
		c.Hosts, c.Tokens = []string{"fleet.example", "other.example:8090", "fd00::7"}, tokensOf(t, map[string]Role{"v": RoleView})
	})
	for name, status := range map[string]int{"[fd00::7]": 200, "[fd00::7]:8090": 200, "[fd00::8]": 421, "fleet.example": 200, "fleet.example:1": 200, "other.example:8090": 200, "other.example": 421, "localhost": 421} {
		named.want(status, map[int]string{421: "host"}[status], request("GET", "/v1/tasks", "", host(name), withToken("v")))
	}
}

func TestOrigin_RequestsOfOtherSitesChangeNothing(t *testing.T) {
	b := newBench(t, nil)
	before := b.store.Revision()
	body := `{"id":"a"}`
	// A page of a site whose name leads here: for the browser it is all one site.
	b.want(421, "host", request("POST", "/v1/tasks", body, host("evil.example:8090"), header("Origin", "http://evil.example:8090"), header("Sec-Fetch-Site", "same-origin")))
	for _, options := range [][]func(*http.Request){
		{header("Sec-Fetch-Site", "cross-site")}, {header("Sec-Fetch-Site", "same-site")}, {header("Origin", "http://evil.example")},
		{header("Origin", "http://localhost:9999")}, {header("Origin", "null")},
	} {
		b.want(403, "cross_origin", request("POST", "/v1/tasks", body, options...))
		b.want(403, "cross_origin", request("DELETE", "/v1/tasks/a", "", options...))
	}
	// What a form can send without the browser asking first.
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json", "application/json+x"} {
		b.want(415, "media_type", request("POST", "/v1/tasks", body, header("Content-Type", media)))
	}
	if b.store.Revision() != before {
		t.Error("something was changed")
	}
	b.want(201, "", request("POST", "/v1/tasks", body, header("Origin", "http://localhost:8090"), header("Content-Type", "application/json; charset=utf-8")))
	trusting := newBench(t, func(c *Config) { c.Origins = []string{"https://ops.example"} })
	trusting.want(201, "", request("POST", "/v1/tasks", body, header("Origin", "https://ops.example"), header("Sec-Fetch-Site", "cross-site")))
	if _, err := New(Config{Broker: b.store.Broker(), Origins: []string{"ops.example"}}); err == nil {
		t.Error("an invalid origin is accepted")
	}
}

func TestOrigin_RequestsOfOtherSitesMakeNoCallToTheBroker(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Dashboard, c.Origins = true, []string{"https://ops.example"} })
	for _, options := range [][]func(*http.Request){
		{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")},
		{header("Sec-Fetch-Site", "same-site")}, {header("Origin", "http://localhost:9999")}, {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Dest", "iframe")},
	} {
		for _, path := range []string{"/v1/tasks", "/v1/events", "/v1/health", "/readyz"} {
			b.want(403, "cross_origin", request("GET", path, "", options...))
			b.want(403, "cross_origin", request("HEAD", path, "", options...))
		}
		b.want(200, "", request("GET", "/", "", options...)) // a page holds no data, and is not framed
	}
	if calls := b.broker.calls.Load(); calls > 0 {
		t.Errorf("the broker was asked %d times", calls)
	}
	for _, options := range [][]func(*http.Request){
		nil, {header("Sec-Fetch-Site", "none"), header("Sec-Fetch-Dest", "document")}, {header("Sec-Fetch-Site", "same-origin")},
		{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Dest", "document")}, // a link that is followed
		{header("Sec-Fetch-Site", "cross-site"), header("Origin", "https://ops.example")},
	} {
		b.want(200, "", request("GET", "/v1/version", "", options...))
	}
}

func TestTokens_EveryOperationAsksForItsRole(t *testing.T) {
	tokens := map[string]Role{"v": RoleView, "o": RoleOperate, "a": RoleAdmin}
	b := newBench(t, func(c *Config) { c.Tokens = tokensOf(t, tokens) })
	for _, options := range [][]func(*http.Request){
		nil, {withToken("")}, {withToken("x")}, {withToken("vv")}, {header("Authorization", "v")}, {header("Authorization", "Basic djp2")},
		{func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer v", "Bearer a"} }},
		{func(r *http.Request) { r.URL.RawQuery = "token=a&access_token=a" }}, {header("Cookie", "token=a")},
	} {
		if w := b.want(401, "unauthorized", request("GET", "/v1/tasks", "", options...)); w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Error("it does not say how")
		}
	}
	b.want(200, "", request("GET", "/v1/tasks", "", withToken("v")))
	b.want(200, "", request("GET", "/livez", ""))
	b.want(200, "", request("GET", "/readyz", ""))
	public, admin := 0, 0
	for pattern, e := range b.server.endpoints {
		if e.Public {
			public++
			continue
		}
		if e.changes() && e.Role < RoleOperate {
			t.Errorf("%s changes something, and needs no more than %s", pattern, e.Role)
		}
		if e.Role == RoleAdmin {
			admin++
		}
		b.want(401, "unauthorized", exampleOf(pattern, e))
		for token, role := range tokens {
			if role < e.Role {
				b.want(403, "role", exampleOf(pattern, e, withToken(token)))
			}
		}
	}
	if public != 2 || admin != 2 {
		t.Errorf("%d operations are public and %d for admins", public, admin)
	}
}

// exampleOf returns a request of an endpoint.
func exampleOf(pattern string, e *endpoint, options ...func(*http.Request)) *http.Request {
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{id}", "a", "{name}", "a", "{path}", "a_b").Replace(path)
	return request(method, path, examples[e.ID].body, options...)
}

func TestReadOnly_RefusesEveryChange(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReadOnly = true })
	for pattern, e := range b.server.endpoints {
		if e.changes() {
			b.want(403, "read_only", exampleOf(pattern, e))
		}
	}
	b.want(200, "", request("POST", "/v1/commands/preview", examples["previewCommand"].body))
}

func TestGet_ChangesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "a"})
	b.run()
	before := b.store.Revision()
	for pattern, e := range b.server.endpoints {
		for _, method := range []string{"GET", "HEAD"} {
			r := exampleOf(pattern, e, header("X-HTTP-Method-Override", e.Method))
			r.Method = method
			if e.Method != "GET" {
				r.URL.RawQuery = "_method=" + e.Method
			} else if method == "GET" {
				continue
			}
			if w := b.do(r); w.Code >= 500 {
				t.Errorf("%s %s: %d", method, r.URL, w.Code)
			}
		}
	}
	if after := b.store.Revision(); after != before {
		t.Errorf("the revision was %d and is %d", before, after)
	}
}

func TestListen_WithoutTokensOnlyThisMachineIsAnswered(t *testing.T) {
	b := newBench(t, nil)
	for _, address := range []string{"192.0.2.1:1234", "[2001:db8::1]:1234", "10.0.0.1:1", "", "nonsense"} {
		b.want(403, "not_local", request("GET", "/v1/tasks", "", func(r *http.Request) { r.RemoteAddr = address }, header("X-Forwarded-For", "127.0.0.1")))
	}
	b.want(200, "", request("GET", "/v1/tasks", "", func(r *http.Request) { r.RemoteAddr = "[::1]:1234" }))

	tokens := tokensOf(t, map[string]Role{"v": RoleView})
	for _, x := range []struct {
		config  Config
		address net.Addr
		allowed bool
	}{
		{Config{}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, true},
		{Config{}, &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, true},
		{Config{}, &net.UnixAddr{Name: "x", Net: "unix"}, true},
		{Config{}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, false},
		{Config{}, &net.TCPAddr{IP: net.IPv6unspecified, Port: 1}, false},
		{Config{}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, false},
		{Config{Tokens: tokens}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, false}, // by which name?
		{Config{Hosts: []string{"h"}}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, false},
		{Config{Tokens: tokens, Hosts: []string{"h"}}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, true},
		{Config{CertificateRole: RoleView, Hosts: []string{"h"}}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, true},
	} {
		if err := x.config.CheckListen(x.address); (err == nil) != x.allowed {
			t.Errorf("%v: %v", x.address, err)
		}
	}
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	wantField(t, "listen", b.server.Serve(t.Context(), listener, nil))
	if _, err := listener.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

func TestCertificate_GivesTheRoleThatIsConfigured(t *testing.T) {
	verified := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "ci"}}}}}
	}
	shown := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "ci"}}}}
	}
	b := newBench(t, func(c *Config) { c.CertificateRole = RoleOperate })
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"a"}`, verified))
	if r := b.log.records(b); len(r) != 1 || r[0]["who"] != "cert:ci" {
		t.Errorf("the log has %v", r)
	}
	b.want(403, "role", request("POST", "/v1/tree/clear", `{"dry_run":false}`, verified))
	b.want(401, "unauthorized", request("GET", "/v1/tasks", "", shown))
	b.want(401, "unauthorized", request("GET", "/v1/tasks", ""))
	b.want(401, "unauthorized", request("GET", "/v1/tasks", "", verified, withToken("wrong")))
	none := newBench(t, func(c *Config) { c.Tokens = tokensOf(t, map[string]Role{"v": RoleView}) })
	none.want(401, "unauthorized", request("GET", "/v1/tasks", "", verified))
}

func TestAuthenticate_OfTheUsersOwnComesFirst(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Authenticate = func(r *http.Request) (Caller, bool) {
			return Caller{Name: "sso:eve", Role: RoleView}, r.Header.Get("X-User") == "eve"
		}
	})
	b.want(200, "", request("GET", "/v1/tasks", "", header("X-User", "eve")))
	b.want(403, "role", request("POST", "/v1/tasks", `{"id":"a"}`, header("X-User", "eve")))
	b.want(401, "unauthorized", request("GET", "/v1/tasks", ""))
}

func TestBody_ThatIsTooLargeIsRefusedHoweverItComes(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.BodyBytesMax = 64 })
	exact := `{"id":"` + strings.Repeat("a", 64-len(`{"id":""}`)) + `"}`
	b.want(201, "", request("POST", "/v1/tasks", exact))
	more := strings.Replace(exact, "a", "aa", 1)
	b.want(413, "too_large", request("POST", "/v1/tasks", more))
	b.want(413, "too_large", request("POST", "/v1/tasks", more, func(r *http.Request) { r.ContentLength = -1 }))
	address := b.listen()
	const post = "POST /v1/tasks HTTP/1.1\r\nContent-Type: application/json\r\n"
	for _, x := range []struct {
		what, text string
		status     int
	}{
		{"in chunks", post + "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("20\r\n"+strings.Repeat(" ", 32)+"\r\n", 3) + "0\r\n\r\n", 413},
		{"before it comes", post + "Host: localhost\r\nContent-Length: 65\r\n\r\n", 413},
		{"a body that never comes, of a request that is refused", post + "Host: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n", 421},
		{"a header that is too large", "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*headerBytesMax) + "\r\n\r\n", 431},
	} {
		if status, _, body := raw(t, address, x.text); status != x.status {
			t.Errorf("%s: %d %s", x.what, status, body)
		}
	}
}

func TestPath_TricksLeadNowhere(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Prefix, c.Tokens = "/fleet", tokensOf(t, map[string]Role{"v": RoleView})
	})
	address := b.listen()
	for _, path := range []string{
		"/fleet//v1/tasks", "/fleet/./v1/tasks", "/fleet/livez/../v1/tasks", "/fleet/../v1/tasks", "/fleet/v1/tasks/", "/fleet/v1/../livez", "/fleet/%2e%2e/fleet/livez",
		"/fleet/v1/tasks/..%2flivez", "/fleet/v1/tasks/%2e%2e", "/fleet/v1/tasks/a%2f..%2fb", "//evil.example/fleet/livez", "/fleet/livez/", "/livez", "/fleet/livez%2f",
		"/fleet/livez;x=1", "/fleet/LIVEZ", "/fleet/v1/tasks/a/b", "/fleet\\livez", "/fleet/livez%00", "/fleet/v1/%74asks/..",
	} {
		status, header, body := raw(t, address, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer v\r\nConnection: close\r\n\r\n")
		if status != 404 || header.Get("Location") != "" {
			t.Errorf("%s: %d %q %s", path, status, header.Get("Location"), body)
		}
	}
	// An ID is any text without a slash, and reaches the client as it is.
	for escaped, status := range map[string]int{"a%20b": 404, "a%7Cb": 404, "%C3%A4": 404, "a%2Fb": 422, "%FF": 422} {
		b.want(status, "", request("GET", "/fleet/v1/tasks/"+escaped, "", withToken("v")))
	}
}

func TestHeaders_AreStrictOnEveryAnswer(t *testing.T) {
	b := newBench(t, nil)
	for _, r := range []*http.Request{request("GET", "/v1/tasks", ""), request("GET", "/nothing", ""), request("GET", "/livez", "", host("evil.example")),
		request("GET", "/openapi.json", ""), request("PUT", "/v1/tasks", ""), request("GET", "/v1/tasks/nobody", "")} {
		h := b.do(r).Header()
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
			if !strings.HasPrefix(h.Get(name), want) {
				t.Errorf("%s: %s is %q", r.URL, name, h.Get(name))
			}
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" || name == "Server" {
				t.Errorf("%s: there is a header %s", r.URL, name)
			}
		}
	}
}

func TestAudit_RecordsEveryAttemptedChangeWithoutSecrets(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Tokens = tokensOf(t, map[string]Role{"secret-o": RoleOperate, "secret-v": RoleView})
	})
	for _, x := range []struct {
		r    *http.Request
		want string
	}{
		{request("POST", "/v1/tasks", `{"id":"a","type":"t","props":{"password":"secret-p"}}`, withToken("secret-o")), "operate operate submitTask done 201 task=a"},
		{request("POST", "/v1/tasks", `{"id":"a","type":"u"}`, withToken("secret-o")), "operate operate submitTask failed 409 task=a"},
		{request("POST", "/v1/tasks", `{"id":"a"}`, withToken("secret-v")), "view view submitTask refused 403 task=<nil>"},
		{request("POST", "/v1/tasks", `{"id":"a"}`, withToken("secret-x")), "  submitTask refused 401 task=<nil>"},
		{request("POST", "/v1/tasks", `{"id":"a"}`, withToken("secret-o"), host("evil.example")), "  submitTask refused 421 task=<nil>"},
		{request("POST", "/v1/tasks/a/commands", `{"message":"run"}`, withToken("secret-o")), "operate operate commandTask done 200 task=a"},
		{request("DELETE", "/v1/tasks/a", "", withToken("secret-o")), "operate operate deleteTask done 204 task=a"},
		{request("GET", "/v1/tasks/a", "", withToken("secret-o")), ""},
		{request("POST", "/v1/commands/preview", `{"ids":["a"]}`, withToken("secret-v")), ""},
	} {
		b.do(x.r)
		b.log.mu.Lock()
		if text := b.log.lines.String(); strings.Contains(text, "secret") {
			t.Errorf("a secret is in the log: %s", text)
		}
		b.log.mu.Unlock()
		records := b.log.records(b)
		if x.want == "" {
			if len(records) > 0 {
				t.Errorf("%s %s is no change: %v", x.r.Method, x.r.URL, records)
			}
			continue
		}
		if len(records) != 1 {
			t.Fatalf("%s %s: %d records", x.r.Method, x.r.URL, len(records))
		}
		r := records[0]
		if got := fmt.Sprint(r["who"], " ", r["role"], " ", r["what"], " ", r["outcome"], " ", r["status"], " task=", r["task"]); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
		if r["from"] != "127.0.0.1:40000" || r["msg"] != "change" {
			t.Errorf("the record is %v", r)
		}
	}
}

func TestRate_IsBoundedForEachCallerAndCallersAreForgotten(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Limits.Rate, c.Limits.RateBurst, c.Tokens = 1e-6, 2, tokensOf(t, map[string]Role{"v": RoleView, "o": RoleOperate})
	})
	get := func(token string) *http.Request { return request("GET", "/v1/version", "", withToken(token)) }
	b.want(200, "", get("v"))
	b.want(200, "", get("v"))
	if w := b.want(429, "rate", get("v")); w.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	b.want(200, "", get("o"))
	b.want(401, "unauthorized", get("x"))
	b.want(401, "unauthorized", get("y"))
	b.want(429, "rate", get("z"))
	b.want(200, "", get("o")) // the guesses of others do not count for it

	l := newLimiter(Limits{Rate: 1e-9, RateBurst: 1})
	l.callsMax = 10
	for i := range 1000 {
		if !l.allow(fmt.Sprint(i)) || l.allow(fmt.Sprint(i)) {
			t.Fatal("it does not limit")
		}
	}
	if n := len(l.young) + len(l.old); n > 20 {
		t.Errorf("it remembers %d callers", n)
	}
}

func TestRequests_ThatAreUnderWayAreBounded(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.RequestsMax, c.Authenticate = 4, byHeader })
	ctx, cancel := context.WithCancel(t.Context())
	b.broker.hangs.Store(true)
	var waiting sync.WaitGroup
	ask := func(name string, already int64) {
		waiting.Go(func() { b.do(request("GET", "/v1/nodes", "", as(name, RoleAdmin)).WithContext(ctx)) })
		b.eventually("it asks the broker", func() bool { return b.broker.calls.Load() == already+1 })
	}
	refused := func(name, limit string) {
		t.Helper()
		w := b.want(503, "busy", request("GET", "/v1/nodes", "", as(name, RoleAdmin)))
		if p := read[Problem](b, w); w.Header().Get("Retry-After") == "" || p.Limit != limit {
			t.Errorf("it says %+v", p)
		}
	}
	ask("one", 0)
	ask("one", 1)
	refused("one", "must be at most 2 at a time of one caller")
	ask("other", 2)
	ask("other", 3)
	refused("third", "must be at most 4 at a time")
	b.want(200, "", request("GET", "/livez", ""))
	b.want(200, "", request("GET", "/v1/version", "", as("one", RoleAdmin)))
	cancel()
	waiting.Wait()
	b.broker.hangs.Store(false)
	b.want(200, "", request("GET", "/v1/nodes", "", as("one", RoleAdmin)))
	if n := len(b.server.budget.callers); n > 0 {
		t.Errorf("it remembers %d callers", n)
	}
}

// Others with the address of a probe, such as users of this machine, could make it fail.
func TestProbes_HaveNoRateLimit(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.Rate, c.Limits.RateBurst = 1e-9, 2 })
	for range 100 {
		b.want(200, "", request("GET", "/livez", ""))
		b.want(200, "", request("GET", "/readyz", ""))
	}
	if n := b.broker.calls.Load(); n > 2 {
		t.Errorf("the broker was asked %d times", n)
	}
}

func TestReady_AsksTheBrokerNoMoreThanOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		for range 100 {
			b.want(200, "", request("GET", "/readyz", ""))
			time.Sleep(probeFor / 50)
		}
		if n := b.broker.calls.Load(); n != 2 {
			t.Errorf("it was asked %d times in %v", n, 2*probeFor)
		}
		away := errors.New("secret-host:2379 is away")
		b.broker.failure.Store(&away)
		if w := b.want(503, "broker_unavailable", request("GET", "/readyz", "")); strings.Contains(w.Body.String(), "secret-host") {
			t.Errorf("it answers %s", w.Body)
		}
	})
}

func TestConfig_InvalidIsRefused(t *testing.T) {
	b := newBench(t, nil)
	for field, change := range map[string]func(*Config){
		"Broker": func(c *Config) { c.Broker = nil }, "Prefix": func(c *Config) { c.Prefix = "x" }, "Limits.Rate": func(c *Config) { c.Limits.Rate = -1 },
		"Hosts": func(c *Config) { c.Hosts = []string{"*.example"} }, "CertificateRole": func(c *Config) { c.CertificateRole = 9 }, "namespace": func(c *Config) { c.Namespace = "/a//b" },
	} {
		config := b.config
		change(&config)
		_, err := New(config)
		wantField(t, field, err)
	}
	for _, prefix := range []string{"/", "/a/", "a", "/a/../b", "/{a}", "/a b", "//a", "/é", "/a%2fb", `/a"b`, "/a\nb"} {
		_, err := New(Config{Broker: b.store.Broker(), Prefix: prefix})
		wantField(t, "Prefix", err)
	}
}

// wantField checks that an error is about the input of a field.
func wantField(t *testing.T, field string, err error) {
	t.Helper()
	if input, ok := errors.AsType[*windlass.BadInputError](err); !ok || input.Field != field {
		t.Errorf("%s: %v", field, err)
	}
}

func TestEmbedding_TheServerCanBePartOfAnotherMux(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Prefix = "/fleet" })
	mux := http.NewServeMux()
	mux.Handle("/fleet/", b.server)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") })
	for path, want := range map[string]string{"/": "mine", "/fleet/livez": `{"status":"ok"}`, "/fleet/v1/tasks": "[]"} {
		if w := serve(mux, request("GET", path, "")); strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
