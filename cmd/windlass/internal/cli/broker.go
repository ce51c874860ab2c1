package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/internal/keys"
)

// brokerFlags are the address of the broker and the credentials.
type brokerFlags struct {
	address      string
	ca           string
	cert         string
	key          string
	user         string
	passwordFile string
	// warnings are written here.
	warnings io.Writer
}

func (b *brokerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&b.address, "broker", "", "etcd://host:port,host:port, or zookeeper://host:port,host:port/chroot, or the data folder of a running dev; default: this user's running dev")
	flags.StringVar(&b.ca, "broker-ca", "", "file with the certificates that the broker's must come from (PEM)")
	flags.StringVar(&b.cert, "broker-cert", "", "file with the certificate to show to the broker (PEM)")
	flags.StringVar(&b.key, "broker-key", "", "file with the key of that certificate (PEM)")
	flags.StringVar(&b.user, "broker-user", "", "user to log in to the broker as")
	flags.StringVar(&b.passwordFile, "broker-password-file", "", "file with that user's password")
}

// etcdScheme begins the address of an external etcd.
const etcdScheme = "etcd://"

func (b *brokerFlags) kind() string {
	if scheme, _, ok := strings.Cut(b.address, "://"); ok {
		return scheme
	}
	return embeddedKind
}

const embeddedKind = "embedded etcd"

// open makes a new connection to the broker.
func (b *brokerFlags) open(ctx context.Context) (broker.Broker, error) {
	if b.address != "" {
		return b.openAddress(ctx, "--broker", b.address)
	}
	dir, err := findDev()
	if err != nil {
		return nil, err
	}
	return b.openAddress(ctx, "--broker", dir)
}

// waitRetry and waitSay are how often openPatiently tries again, and says so.
const (
	waitRetry = time.Second
	waitSay   = time.Minute
)

// openPatiently connects to the broker, and waits for it if it is away or has no quorum:
// a service may start before its broker does.
func (a *app) openPatiently(ctx context.Context) (broker.Broker, error) {
	var said time.Time
	for {
		store, err := a.broker.open(ctx)
		away := errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrNoQuorum)
		if !away || ctx.Err() != nil {
			return store, err
		}
		if time.Since(said) >= waitSay {
			fmt.Fprintf(a.err, "windlass: waiting for the broker: %v\n", err)
			said = time.Now()
		}
		select {
		case <-time.After(waitRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// openAddress connects to the broker at an address that a flag gave.
func (b *brokerFlags) openAddress(ctx context.Context, flag, address string) (broker.Broker, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case ok && strings.Contains(rest, "@"): // the address is not shown, as it may have a password
		return nil, usagef("%s: the address must not have a user or a password in it; give --broker-user and --broker-password-file", flag)
	case !ok && isHostPort(address):
		return b.openAddress(ctx, flag, etcdScheme+address)
	case !ok:
		return opened(embedded.Dial(ctx, address))
	case scheme+"://" == etcdScheme:
		config, err := b.etcdConfig(rest)
		if err != nil {
			return nil, err
		}
		return opened(etcd.Open(ctx, config))
	case scheme+"://" == zookeeper.Scheme:
		config, err := b.zookeeperConfig(flag, address)
		if err != nil {
			return nil, err
		}
		return opened(zookeeper.Open(ctx, config))
	}
	return nil, usagef("%s %q: the scheme %q is not known; give %shost:port, %shost:port or a folder", flag, address, scheme, etcdScheme, zookeeper.Scheme)
}

// isHostPort reports whether an address without a scheme is that of a server, and not of a
// folder that exists.
func isHostPort(address string) bool {
	first, _, _ := strings.Cut(address, ",")
	host, port, err := net.SplitHostPort(first)
	if err != nil || host == "" || strings.ContainsRune(host, '/') {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	_, err = os.Stat(address)
	return err != nil
}

// opened makes an interface of a store, nil after an error.
func opened[B broker.Broker](store B, err error) (broker.Broker, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (b *brokerFlags) etcdConfig(endpoints string) (config etcd.Config, err error) {
	config.Endpoints, config.Username = strings.Split(endpoints, ","), b.user
	config.Password, config.TLS, err = b.credentials()
	return config, err
}

func (b *brokerFlags) zookeeperConfig(flag, address string) (zookeeper.Config, error) {
	config, err := zookeeper.ParseAddress(address)
	if err != nil {
		return config, usagef("%s: %w", flag, err)
	}
	config.Username = b.user
	config.Password, config.TLS, err = b.credentials()
	return config, err
}

func (b *brokerFlags) credentials() (password string, secure *tls.Config, err error) {
	if password, err = b.password(); err != nil {
		return "", nil, err
	}
	secure, err = b.tlsConfig()
	return password, secure, err
}

func (b *brokerFlags) password() (string, error) {
	switch {
	case b.passwordFile == "" && b.user == "":
		return "", nil
	case b.passwordFile == "":
		return "", usagef("--broker-user %s: it goes with --broker-password-file", b.user)
	case b.user == "":
		return "", usagef("--broker-password-file %s: it goes with --broker-user", b.passwordFile)
	}
	password, err := os.ReadFile(b.passwordFile)
	if err != nil {
		return "", usagef("--broker-password-file: %w", err)
	}
	b.warnIfOpen("--broker-password-file", b.passwordFile)
	text := strings.TrimSpace(string(password))
	if text == "" {
		return "", usagef("--broker-password-file %s: it is empty", b.passwordFile)
	}
	return text, nil
}

// warnIfOpen warns of a file with a secret that everybody can read. That is no error: in
// containers, which have one user, secrets often have this mode.
func (b *brokerFlags) warnIfOpen(flag, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o004 != 0 {
		fmt.Fprintf(b.warnings, "windlass: %s %s: every user of this machine can read it (mode %04o)\n", flag, file, info.Mode().Perm())
	}
}

func (b *brokerFlags) tlsConfig() (*tls.Config, error) {
	if b.ca == "" && b.cert == "" && b.key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.ca != "" {
		var err error
		if config.RootCAs, err = readCertificates("--broker-ca", b.ca); err != nil {
			return nil, err
		}
	}
	if (b.cert == "") != (b.key == "") {
		return nil, usagef("--broker-cert and --broker-key go together")
	}
	if b.cert != "" {
		b.warnIfOpen("--broker-key", b.key)
		load, err := loaderOf("--broker-cert and --broker-key", b.cert, b.key)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}

// withBroker calls f with the broker, and closes that after.
func (a *app) withBroker(ctx context.Context, f func(broker.Broker) error) (err error) {
	b, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return f(b)
}

func (a *app) withClient(ctx context.Context, f func(*windlass.Client) error, options ...windlass.ClientOption) error {
	return a.withClientOf(ctx, func(_ broker.Broker, c *windlass.Client) error { return f(c) }, options...)
}

// withClientOf is withClient for what also needs the broker of the client.
func (a *app) withClientOf(ctx context.Context, f func(broker.Broker, *windlass.Client) error, options ...windlass.ClientOption) error {
	return a.withBroker(ctx, func(b broker.Broker) error {
		client, err := windlass.NewClient(b, a.namespace, options...)
		if err != nil {
			return err
		}
		return f(b, client)
	})
}

// onClient is a RunE that needs a client.
func (a *app) onClient(run func(ctx context.Context, c *windlass.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.withClient(cmd.Context(), func(c *windlass.Client) error { return run(cmd.Context(), c, args) })
	}
}

func (a *app) space() (keys.Space, error) {
	space, err := keys.New(cmp.Or(a.namespace, windlass.NamespaceDefault))
	if err != nil {
		return space, usagef("--namespace: %w", err)
	}
	return space, nil
}

// readCertificates reads the file with the certificates of authorities that a flag names.
func readCertificates(flag, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("%s %s: there is no certificate in it", flag, file)
	}
	return pool, nil
}

// loaderOf loads a certificate anew each time, so that a renewed one is used. It fails at
// once if there is none.
func loaderOf(flags, cert, key string) (func() (*tls.Certificate, error), error) {
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := load(); err != nil {
		return nil, usagef("%s: %w", flags, err)
	}
	return load, nil
}
