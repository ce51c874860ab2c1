//go:build e2e

package zookeeper

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// secured configures a connection with a password.
func secured(server *zktest.Server) Config {
	config := testConfig(server.Address())
	config.Username, config.Password = "windlass", "secret"
	return config
}

// What is created with a user name is that user's alone.
func TestAccess_OfAUserIsHisAlone(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := secured(server)
	b := openTest(t, config)
	s := mustGrant(t, b, 20*time.Second)
	mustCommit(t, b, put("/ns/a", []byte("1")), putSession("/ns/b", s.ID))
	if _, err := b.KeepAlive(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/ns/a", "/ns/b", ownDir, sessionsDir} {
		r := read(t, server, config.Chroot+path)
		if r.Code != wire.CodeNoAuth {
			t.Errorf("%s can be read by anyone: %q, %v", path, r.Data, r.Code)
		}
	}
	for _, password := range []string{"", "wrong"} {
		other := config
		if other.Password = password; password == "" {
			other.Username = ""
		}
		if _, err := Open(t.Context(), other); !errors.Is(err, broker.ErrPermission) {
			t.Errorf("Open with password %q: %v", password, err)
		}
	}
	again := openTest(t, config)
	if kv, err := again.Get(t.Context(), "/ns/a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("%+v, %v", kv, err)
	}
}

// A chroot that somebody else created before could be changed by everyone.
func TestAccess_AChrootThatEveryoneMayChangeIsRefused(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	secured := func(chroot string) Config {
		config := secured(server)
		config.Chroot = chroot
		return config
	}
	refused := func(config Config, path string) {
		t.Helper()
		if _, err := Open(t.Context(), config); !errors.Is(err, broker.ErrPermission) || !strings.Contains(err.Error(), `"wcda" with `+path+",") {
			t.Errorf("%s: %v", config.Chroot, err)
		}
	}
	ask(t, plain(t, server.Address()), wire.Single(wire.Create("/squat", nil, wire.Persistent, everyone)))
	refused(secured("/squat"), "/squat")
	refused(secured(""), "/")
	local := testConfig(server.Address())
	local.Chroot, local.ACL = "/squat", []string{"ip:127.0.0.1:cdrwa"}
	refused(local, "/squat")

	before := testConfig(server.Address())
	openTest(t, before)
	refused(secured(before.Chroot), before.Chroot)
	asked := secured(before.Chroot)
	asked.ACL = []string{"world:anyone:cdrwa"}
	openTest(t, asked)

	// Here the chroot is the user's, and what is in it everyone's.
	owned := func(user *wire.Config) { user.Auth = []wire.Auth{{Scheme: "digest", Data: []byte("windlass:secret")}} }
	ask(t, plain(t, server.Address(), owned), wire.Single(wire.Create("/partly", nil, wire.Persistent, []wire.ACL{{Perms: wire.PermAll, Scheme: "auth"}})))
	ask(t, plain(t, server.Address(), owned), wire.Single(wire.Create("/partly"+ownDir, nil, wire.Persistent, everyone)))
	refused(secured("/partly"), "/partly"+ownDir)
	openTest(t, secured("/of/ones/own"))
}

func TestAccess_IsAsTheACLSays(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := secured(server)
	config.ACL = []string{"auth::cdrwa", "world:anyone:r"}
	b := openTest(t, config)
	mustCommit(t, b, put("/ns/a", []byte("1")))
	s := mustGrant(t, b, time.Second)
	if r := read(t, server, b.layout.session(s.ID)); r.Code != wire.CodeNoAuth {
		t.Errorf("the password of a session can be read by anyone: %v", r.Code)
	}
	config.Username, config.Password, config.ACL = "", "", nil
	guest := openTest(t, config)
	if kv, err := guest.Get(t.Context(), "/ns/a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("reading: %+v, %v", kv, err)
	}
	if kvs, _, err := broker.Collect(t.Context(), guest, "/ns/"); err != nil || len(kvs) != 1 {
		t.Errorf("listing: %+v, %v", kvs, err)
	}
	if r := guest.Commit(t.Context(), put("/ns/a", nil))[0]; !errors.Is(r.Err, broker.ErrPermission) || broker.MaybeApplied(r.Err) {
		t.Errorf("writing: %+v", r)
	}
}

// tlsProxy accepts TLS and forwards it to a server.
func tlsProxy(t *testing.T, server string) (address string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(certificate)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = in.Close() }()
				out, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				wg.Go(func() {
					_, _ = io.Copy(out, in)
					_ = out.Close()
				})
				_, _ = io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return listener.Addr().String(), roots
}

func TestAccess_ByTLSAndADialerOfOnesOwn(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	address, roots := tlsProxy(t, server.Address())
	dialed := 0
	config := testConfig(address)
	config.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	b := openTest(t, config)
	mustCommit(t, b, put("/a", []byte("1")))
	if kv, err := b.Get(t.Context(), "/a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("%+v, %v", kv, err)
	}
	if dialed != 1 {
		t.Errorf("the dialer was used %d times", dialed)
	}
	config.TLS, config.DialTimeout = &tls.Config{MinVersion: tls.VersionTLS13}, 2*time.Second
	if _, err := Open(t.Context(), config); !errors.Is(err, broker.ErrUnavailable) || !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}
