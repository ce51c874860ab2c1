package cli

import (
	"testing"
)

func TestServe_PrintsAnAddressThatItAnswersTo(t *testing.T) {
	for _, test := range []struct {
		listening string
		hosts     []string
		want      string
	}{
		{"127.0.0.1:8090", nil, "127.0.0.1:8090"},
		{"[::]:8443", nil, "localhost:8443"},
		{"0.0.0.0:8443", nil, "localhost:8443"},
		{"[::]:8443", []string{"fleet.example", "other.example"}, "fleet.example:8443"},
		{"[::]:8443", []string{"fleet.example:443"}, "fleet.example:443"},
		{"[::]:8443", []string{"[::1]"}, "[::1]:8443"},
		{"10.0.0.1:8443", []string{"::1"}, "[::1]:8443"},
	} {
		if got := named(test.listening, test.hosts); got != test.want {
			t.Errorf("%s with %q: %s, want %s", test.listening, test.hosts, got, test.want)
		}
	}
}
