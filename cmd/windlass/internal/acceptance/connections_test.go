//go:build e2e && linux

package acceptance

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"testing"
)

var served = regexp.MustCompile(`http +http://(127\.0\.0\.1:\d+)`)

// A process without free file descriptors cannot write, and its store ends it. Idle
// connections, with or without an earlier request, must not use them up or keep others out.
func TestDev_IdleConnectionsLeaveItItsFiles(t *testing.T) {
	const files, connections = 300, 500
	w := newWorld(t)
	dev := w.launch(launch{name: "dev", argv: []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh",
		program, "dev", "--nodes", "1", "--session-ttl", "5s", "--listen", "127.0.0.1:0"}})
	var address string
	w.eventually(soon, func() string {
		said, err := os.ReadFile(dev.output)
		must(t, err)
		m := served.FindSubmatch(said)
		if m == nil {
			return "it does not say where it listens"
		}
		address = string(m[1])
		return w.missingNodes(1)
	})
	for i := range connections {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") // it may be closed before that
		}
	}
	c, err := net.Dial("tcp", address)
	must(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := c.Read(answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("one more connection gets %q, %v", answer, err)
	}
	w.must("task", "submit", "after", "--", "true")
	w.waitCompleted(patience, 1)
	w.endsCleanly(dev)
}
