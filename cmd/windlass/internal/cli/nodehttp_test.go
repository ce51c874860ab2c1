package cli

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/windlass-go/windlass/api"
)

func TestNodeHTTP_ServesMetricsToThisMachineOrForAToken(t *testing.T) {
	token := api.NewToken()
	line, err := api.TokenLine(api.RoleView, "prometheus", token)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := api.LoadTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tokens            *api.Tokens
		host, shows, from string
		want              int
	}{
		{host: "127.0.0.1:9464", from: "10.0.0.7:4000", want: 403}, {host: "localhost", from: "[fe80::1]:4000", want: 403}, {host: "[::1]:9464", from: "[::1]:4000"},
		{tokens: tokens, host: "10.0.0.1:9464", shows: "Bearer " + token, from: "10.0.0.7:4000"},
		{host: "127.0.0.1:9464"}, {host: "localhost"}, {host: "[::1]:9464"},
		{host: "evil.example:9464", want: 421}, {host: "10.0.0.1:9464", want: 421}, {host: "localhost.evil.example", want: 421},
		{tokens: tokens, host: "10.0.0.1:9464", want: 401},
		{tokens: tokens, host: "127.0.0.1:9464", want: 401},
		{tokens: tokens, host: "10.0.0.1:9464", shows: "Bearer " + token},
		{tokens: tokens, host: "10.0.0.1:9464", shows: "Bearer x", want: 401},
		{tokens: tokens, host: "10.0.0.1:9464", shows: token, want: 401},
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host, r.RemoteAddr = test.host, "127.0.0.1:4000"
		if test.from != "" {
			r.RemoteAddr = test.from
		}
		if test.shows != "" {
			r.Header.Set("Authorization", test.shows)
		}
		if got, why := (&nodeHTTP{tokens: test.tokens}).refuses(r); got != test.want {
			t.Errorf("%s, tokens %t, %q: %d %s, want %d", test.host, test.tokens != nil, test.shows, got, why, test.want)
		}
	}
}
