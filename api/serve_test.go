package api

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
)

// certificate makes one that another has signed, or itself.
func certificate(t *testing.T, name string, by *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := of, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestServe_ClientCertificatesAreVerifiedAndEveryoneElseIsRefused(t *testing.T) {
	ca, other := certificate(t, "ca", nil), certificate(t, "other", nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	b := newBench(t, func(c *Config) { c.CertificateRole, c.Hosts = RoleView, []string{"fleet.example"} })
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	b.serve(listener, &tls.Config{
		Certificates: []tls.Certificate{certificate(t, "fleet.example", &ca)}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
	})
	get := func(certificates ...tls.Certificate) (int, string, error) {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				_, port, _ := net.SplitHostPort(listener.Addr().String())
				return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
			}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("https://fleet.example/v1/tasks")
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		return response.StatusCode, response.Proto, nil
	}
	if status, proto, err := get(certificate(t, "ci", &ca)); status != 200 || proto != "HTTP/2.0" {
		t.Errorf("with a certificate: %d %s %v", status, proto, err)
	}
	if status, _, err := get(); status != 401 {
		t.Errorf("without one: %d %v", status, err)
	}
	if status, _, err := get(certificate(t, "ci", &other)); status == 200 {
		t.Errorf("with one of another authority: %d %v", status, err)
	}
}

func TestServe_TheTimeForABodyDoesNotEndARequestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Limits.BodyTimeout = time.Second })
		b.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "none"}})
		conn, err := b.listenInBubble().dial(t.Context(), "", "")
		must(t, err)
		body, began := `{"message":"release","wait":"10s"}`, time.Now()
		status, _, answer := rawOn(t, conn, fmt.Sprintf("POST /v1/tasks/a/commands HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body))
		if took := time.Since(began); status != 200 || took < 10*time.Second || !strings.Contains(string(answer), `"sent"`) {
			t.Errorf("after %v: %d %s", took, status, answer)
		}
	})
}

func TestServe_AHeaderThatDoesNotComeEndsTheConnection(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.HeaderTimeout = 10 * time.Millisecond })
	address := b.listen()
	for _, text := range []string{"", "GET /livez HTTP/1.1\r\nHost: local"} {
		conn := dial(t, address)
		_, err := io.WriteString(conn, text)
		must(t, err)
		if answer, err := io.ReadAll(conn); err != nil || strings.Contains(string(answer), "200") {
			t.Errorf("after %q: %q %v", text, answer, err)
		}
	}
}

func TestEvents_AViewerThatDoesNotReadIsCutOffAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Limits.WriteTimeout = 20 * time.Second })
		network := b.listenInBubble()
		stuck, err := network.dial(t.Context(), "", "")
		must(t, err)
		defer stuck.Close()
		_, err = io.WriteString(stuck, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		must(t, err)
		_, err = stuck.Read(make([]byte, 16))
		must(t, err)
		viewers := b.server.hub.count
		synctest.Wait()
		if viewers() != 1 {
			t.Fatal("the viewer is not there")
		}
		other := b.viewBy(&http.Transport{DialContext: network.dial}, "localhost", "", "")
		if e, open := other.next(); !open || e.kind != kindList {
			t.Errorf("the other viewer gets %+v", e)
		}
		began := time.Now()
		b.server.hub.publish(kindTask, 1, []byte(`"news"`))
		if e, open := other.next(); !open || e.data != `"news"` || !time.Now().Equal(began) {
			t.Errorf("the other viewer gets %+v after %v", e, time.Since(began))
		}
		time.Sleep(19 * time.Second)
		if n := viewers(); n != 2 {
			t.Errorf("%d viewers are left before the time to write is up", n)
		}
		time.Sleep(2 * time.Second)
		if n := viewers(); n != 1 {
			t.Errorf("%d viewers are left, and one reads", n)
		}
	})
}

func TestEvents_EndWhenTheTokenIsNotValidAnyMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, line(t, RoleView, "wall", "old"))
	tokens, err := LoadTokens(path, nil)
	must(t, err)
	b := newBench(t, func(c *Config) { c.Tokens, c.Limits.Heartbeat = tokens, time.Millisecond })
	address := b.listen()
	conn := dial(t, address)
	fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer old\r\nConnection: close\r\n\r\n")
	answer := bufio.NewReader(conn)
	if status, err := answer.ReadString('\n'); err != nil || !strings.Contains(status, "200") {
		t.Fatalf("%q %v", status, err)
	}
	write(t, path, line(t, RoleView, "wall", "new"))
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Errorf("the stream goes on: %v", err)
	}
	must(t, os.Remove(path))
}

func TestPublisher_DoesNotRepeatWhatHasNotChanged(t *testing.T) {
	b := newBench(t, nil)
	b.server.hub.start()
	v, _, p := b.server.hub.enter("", nil, of(RoleView))
	if p != nil {
		t.Fatal(p)
	}
	publisher := b.server.publisher(kindNode)
	for _, value := range []any{1, 1, 2, 2, nil, 2} {
		publisher.publish("n", 1, value == nil, value)
	}
	b.server.hub.stop()
	var got []string
	for e := range v.events {
		got = append(got, string(e.data))
	}
	if fmt.Sprint(got) != `[1 2 {"gone":true,"name":"n"} 2]` {
		t.Errorf("it published %q", got)
	}
}

func TestReady_ProbesDoNotQueueBehindABrokerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.broker.hangs.Store(true)
		began := time.Now()
		var probes sync.WaitGroup
		for range 4 {
			probes.Go(func() { b.do(request("GET", "/readyz", "")) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), probeWithin/2)
		defer cancel()
		b.do(request("GET", "/readyz", "").WithContext(ctx))
		if took := time.Since(began); took != probeWithin/2 {
			t.Errorf("a client that leaves waited %v", took)
		}
		probes.Wait()
		if n := b.broker.calls.Load(); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		if took := time.Since(began); took != probeWithin {
			t.Errorf("they waited %v", took)
		}
	})
}
