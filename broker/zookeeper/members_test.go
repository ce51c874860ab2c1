package zookeeper

import (
	"net"
	"strings"
	"testing"
)

// A server may not be allowed to tell, or may not be a ZooKeeper at all.
func TestMembers_WhatIsNoAnswerIsAnError(t *testing.T) {
	for answer, want := range map[string]string{
		"srvr is not executed because it is not in the whitelist.\n": "whitelist",
		"HTTP/1.1 400 Bad Request\r\n\r\n":                           `"HTTP/1.1 400 Bad Request`,
		"":                                                           `"nothing"`,
		"This ZooKeeper instance is not currently serving requests\n": "",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := listener.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Read(make([]byte, 4))
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}()
		members, err := Members(t.Context(), Config{Servers: []string{listener.Addr().String()}})
		<-done
		_ = listener.Close()
		if err != nil || len(members) != 1 {
			t.Fatal(members, err)
		}
		m := members[0]
		if (m.Err == nil) != (want == "") || m.Err != nil && !strings.Contains(m.Err.Error(), want) || m.Mode != "" {
			t.Errorf("%q: %+v, want an error with %q", answer, m, want)
		}
	}
}
