package etcd_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

func TestAConfigurationThatWouldNotProtectIsRefused(t *testing.T) {
	secure := &tls.Config{MinVersion: tls.VersionTLS13}
	cases := map[string]etcd.Config{
		"0 endpoints":         {},
		"has no address":      {Endpoints: []string{"http://"}},
		"the scheme is":       {Endpoints: []string{"zookeeper://a:1"}},
		"unix:///run/x.sock":  {Endpoints: []string{"/run/x.sock"}},
		"without TLS, but":    {Endpoints: []string{"http://a:1"}, TLS: secure},
		"all endpoints use":   {Endpoints: []string{"https://a:1", "b:1"}},
		"go together":         {Endpoints: []string{"a:1"}, Username: "u"},
		"a timeout of -1s":    {Endpoints: []string{"a:1"}, DialTimeout: -time.Second},
		"a timeout of 1h0m0s": {Endpoints: []string{"a:1"}, RequestTimeout: time.Hour},
	}
	for want, config := range cases {
		_, err := etcd.Open(t.Context(), config)
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", config, err, want)
		}
	}
}

func TestAConfigurationPrintsNoSecret(t *testing.T) {
	config := etcd.Config{Endpoints: []string{"a:1"}, Username: "u", Password: "hush"}
	for _, text := range []string{config.String(), config.LogValue().String()} {
		if strings.Contains(text, "hush") || !strings.Contains(text, "user=u dial_timeout=5s request_timeout=5s") {
			t.Error(text)
		}
	}
}

func TestAnUnreachableStoreIsNamedWithTheReason(t *testing.T) {
	// A port that was free a moment ago, so nobody listens on it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = etcd.Open(t.Context(), etcd.Config{Endpoints: []string{address}, DialTimeout: 300 * time.Millisecond})
	if !errors.Is(err, broker.ErrUnavailable) || broker.MaybeApplied(err) {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"open " + address, "tried for ", "connection refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
