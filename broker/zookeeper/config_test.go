package zookeeper

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass/broker"
)

func TestParseAddress(t *testing.T) {
	for address, want := range map[string]Config{
		"zookeeper://a":                {Servers: []string{"a:2181"}},
		"zookeeper://a:1,b/":           {Servers: []string{"a:1", "b:2181"}},
		"zookeeper://[::1],[::2]:3/x/": {Servers: []string{"[::1]:2181", "[::2]:3"}, Chroot: "/x"},
		"zookeeper://a/x/y?tick_time=2s&message_bytes=4194304&acl=world:anyone:r&acl=auth::cdrwa": {Servers: []string{"a:2181"}, Chroot: "/x/y",
			TickTime: 2 * time.Second, MessageBytes: 4 << 20, ACL: []string{"world:anyone:r", "auth::cdrwa"}},
	} {
		got, err := ParseAddress(address)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", address, err, diff)
		}
	}
	for _, bad := range []string{"", "etcd://a", "zookeeper://", "zookeeper://a,,b", "zookeeper://a/x//y", "zookeeper://a/../b", "zookeeper://a/x?y=1",
		"zookeeper://a?tick_time=-1s", "zookeeper://a?message_bytes=1e9", "zookeeper://a?acl=world", "zookeeper://a?acl=world:anyone:z", "zookeeper://a/%2f"} {
		if _, err := ParseAddress(bad); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestConfig_WhatWouldNotWorkIsRefused(t *testing.T) {
	for want, config := range map[string]Config{
		"0 servers; give 1 to 64":     {},
		`server "a": it is host:port`: {Servers: []string{"a"}},
		"the limit is 1m0s":           {Servers: []string{"a:1"}, DialTimeout: time.Hour},
		"message bytes -1":            {Servers: []string{"a:1"}, MessageBytes: -1},
		"it is one segment of a key":  {Servers: []string{"a:1"}, Wide: []string{"a/b"}},
		"user name \"u\"":             {Servers: []string{"a:1"}, Username: "u"},
	} {
		if _, err := Open(t.Context(), config); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestConfig_PrintsNoSecret(t *testing.T) {
	text := Config{Servers: []string{"a:1"}, Username: "u", Password: "hidden", TLS: &tls.Config{}}.String()
	if want := "zookeeper servers=a:1 chroot=/ tls=true user=u dial_timeout=5s request_timeout=5s tick_time=3s message_bytes=1048575"; text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, address := range []string{"zookeeper://a", "zookeeper://[::1]:2,b/x/y?tick_time=2s&acl=auth::cdrwa", "zookeeper://,/?&"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		config, err := ParseAddress(address)
		if err == nil && config.validate() != nil {
			t.Errorf("%q was read as %v", address, config)
		}
	})
}
