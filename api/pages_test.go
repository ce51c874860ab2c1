package api

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
)

func TestPages_AreServedBelowThePrefixWithoutAToken(t *testing.T) {
	for _, prefix := range []string{"", "/fleet"} {
		b := newBench(t, func(c *Config) {
			c.Prefix, c.Dashboard, c.Tokens = prefix, true, tokensOf(t, map[string]Role{"v": RoleView})
		})
		w := b.want(200, "", request("GET", prefix+"/", ""))
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("the headers are %v", w.Header())
		}
		at := strings.Index(w.Body.String(), `src="./assets/`)
		if at < 0 {
			t.Fatalf("the page loads no script: %s", w.Body)
		}
		script, _, _ := strings.Cut(w.Body.String()[at+len(`src=".`):], `"`)
		w = b.want(200, "", request("GET", prefix+script, ""))
		if !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("a script is kept: %q", w.Header().Get("Cache-Control"))
		}
		b.want(200, "", request("HEAD", prefix+"/", ""))
		w = b.want(405, "method", request("POST", prefix+"/", "{}"))
		if got := w.Header().Get("Allow"); got != "GET, HEAD" {
			t.Errorf("Allow is %q", got)
		}
		b.want(401, "unauthorized", request("GET", prefix+"/v1/tasks", ""))
		b.want(421, "host", request("GET", prefix+"/", "", host("evil.example")))
		for _, odd := range []string{"/index.html", "/.sources", "//", "/assets/", "/assets/../", "/%2e/", "/assets%2F" + script[len("/assets/"):], script + "/"} {
			b.want(404, "no_endpoint", request("GET", prefix+odd, ""))
		}
		if calls := b.broker.calls.Load(); calls != 0 {
			t.Errorf("pages cost the broker %d calls", calls)
		}
	}
}

func TestPages_APrefixWithoutItsSlashLeadsToThePage(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Prefix, c.Dashboard = "/fleet", true })
	w := b.want(308, "", request("GET", "/fleet", ""))
	if got := w.Header().Get("Location"); got != "/fleet/" {
		t.Errorf("it leads to %q", got)
	}
	b.want(404, "no_endpoint", request("GET", "/fleetx/", ""))
	b.want(404, "no_endpoint", request("GET", "/", ""))
}

func TestPages_HaveTheRateLimitAndExistOnlyIfConfigured(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Dashboard, c.Limits.Rate, c.Limits.RateBurst = true, 1e-9, 2 })
	b.want(200, "", request("GET", "/", ""))
	b.want(200, "", request("GET", "/", ""))
	b.want(429, "rate", request("GET", "/", ""))
	b = newBench(t, nil)
	b.want(404, "no_endpoint", request("GET", "/", ""))
}

func TestWhoami_ReturnsTheCallerAndItsRole(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Tokens, c.ReadOnly, c.BrokerKind = tokensOf(t, map[string]Role{"wall": RoleView, "boss": RoleAdmin}), true, "memory"
	})
	for name, role := range map[string]string{"wall": "view", "boss": "admin"} {
		w := b.want(200, "", request("GET", "/v1/whoami", "", withToken(name)))
		me := read[identity](b, w)
		if me.Version == "" {
			t.Error("there is no version")
		}
		me.Version = ""
		if want := (identity{Name: role, Role: role, ReadOnly: true, Namespace: "/test", Broker: "memory"}); me != want {
			t.Errorf("it is %+v, want %+v", me, want)
		}
	}
	if b.broker.calls.Load() != 0 {
		t.Error("the broker was asked")
	}
}

// slowBroker takes a quarter of a second to read a key.
type slowBroker struct{ broker.Broker }

// Get implements broker.Broker.
func (b slowBroker) Get(ctx context.Context, key string) (broker.KV, error) {
	time.Sleep(250 * time.Millisecond)
	return b.Broker.Get(ctx, key)
}

func TestHealth_MeasuresTheBrokerOnceForAllRequests(t *testing.T) {
	synctest.Test(t, measuresTheBrokerOnce)
}

func measuresTheBrokerOnce(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Sessions = func() []Session { return []Session{{Node: "n1", MarginSeconds: 2.5, FullSeconds: 10}} }
	})
	ask := func() health {
		t.Helper()
		return read[health](b, b.want(200, "", request("GET", "/v1/health", "")))
	}
	b.broker.Broker = slowBroker{b.broker.Broker}
	first := ask()
	if !first.Broker.OK || first.Broker.LatencySeconds != 0.25 || first.Broker.MeasuredAt.IsZero() || len(first.Sessions) != 1 || first.Sessions[0].MarginSeconds != 2.5 {
		t.Errorf("it is %+v", first)
	}
	for range 10 {
		if got := ask(); got.Broker != first.Broker {
			t.Errorf("it was measured again: %+v", got)
		}
	}
	if calls := b.broker.calls.Load(); calls != 1 {
		t.Errorf("the broker was asked %d times", calls)
	}
	time.Sleep(probeFor)
	away := broker.ErrUnavailable
	b.broker.failure.Store(&away)
	if got := ask(); got.Broker.OK || got.Broker.Problem != "broker_unavailable" || len(got.Sessions) != 1 {
		t.Errorf("of a broker that is away it says %+v", got)
	}
	b.broker.failure.Store(nil)
	time.Sleep(probeFor)
	if got := ask(); !got.Broker.OK || got.Broker.Problem != "" {
		t.Errorf("of a broker that is back it says %+v", got)
	}
}

func TestHistory_OfANewTaskIsEmpty(t *testing.T) {
	b := newBench(t, nil)
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"a","type":"none"}`))
	if got := b.want(200, "", request("GET", "/v1/tasks/a/history", "")).Body.String(); !strings.Contains(got, `"entries":[]`) {
		t.Errorf("it is %s", got)
	}
	b.want(404, "not_found", request("GET", "/v1/tasks/b/history", ""))
}

func TestNamespace_IsNormalizedAsByTheClient(t *testing.T) {
	for _, name := range []string{"shop", "/shop", " shop/ "} {
		b := newBench(t, func(c *Config) { c.Namespace = name })
		if w := b.want(200, "", request("GET", "/v1/whoami", "")); !strings.Contains(w.Body.String(), `"namespace":"/shop"`) {
			t.Errorf("%q: %s", name, w.Body)
		}
		b.want(200, "", request("GET", "/v1/health", ""))
		if key := b.broker.last.Load(); key == nil || !strings.HasPrefix(*key, "/shop/") {
			t.Errorf("%q: the probe asks for %v", name, key)
		}
	}
}
