package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/zookeeper"
)

// brokerFlags say which broker to use, and as whom.
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

// external returns the endpoints of an external etcd, and false if another broker
// was asked for.
func (b *brokerFlags) external() (endpoints string, ok bool) {
	return strings.CutPrefix(b.address, etcdScheme)
}

// kind is which broker it is, for people.
func (b *brokerFlags) kind() string {
	if scheme, _, ok := strings.Cut(b.address, "://"); ok {
		return scheme
	}
	return embeddedKind
}

// embeddedKind is what the broker of a dev is called.
const embeddedKind = "embedded etcd"

// open connects to the broker, each time anew.
func (b *brokerFlags) open(ctx context.Context) (broker.Broker, error) {
	address := b.address
	if address == "" {
		dir, err := findDev()
		if err != nil {
			return nil, err
		}
		address = dir
	}
	return b.openAddress(ctx, "--broker", address)
}

// waitRetry and waitSay are how often what waits for the broker tries again, and says so.
const (
	waitRetry = time.Second
	waitSay   = time.Minute
)

// openPatiently connects to the broker, however long it is away or without a quorum: what
// works beside it for as long as the machine runs may start before it.
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

// openAddress connects to the broker at an address that a flag gave, with the
// credentials of all.
func (b *brokerFlags) openAddress(ctx context.Context, flag, address string) (broker.Broker, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case ok && strings.Contains(rest, "@"): // which is not shown, as it may be a password
		return nil, usagef("%s: the address must not have a user or a password in it; give --broker-user and --broker-password-file", flag)
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

// opened makes an interface of what was opened, which is nil if that failed.
func opened[B broker.Broker](store B, err error) (broker.Broker, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (b *brokerFlags) zookeeperConfig(flag, address string) (zookeeper.Config, error) {
	config, err := zookeeper.ParseAddress(address)
	if err != nil {
		return config, usagef("%s: %w", flag, err)
	}
	config.Username = b.user
	if config.Password, err = b.password(); err != nil {
		return config, err
	}
	config.TLS, err = b.tlsConfig()
	return config, err
}

// password reads the password's file, if one is given.
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

// warnIfOpen says that a secret is in a file that everybody can read. That is no error: in a
// container, where nobody else is, such files are handed in like that.
func (b *brokerFlags) warnIfOpen(flag, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
		fmt.Fprintf(b.warnings, "windlass: %s %s: every user of this machine can read it (mode %04o)\n", flag, file, info.Mode().Perm())
	}
}

func (b *brokerFlags) etcdConfig(endpoints string) (etcd.Config, error) {
	config := etcd.Config{Endpoints: strings.Split(endpoints, ","), Username: b.user}
	var err error
	if config.Password, err = b.password(); err != nil {
		return config, err
	}
	config.TLS, err = b.tlsConfig()
	return config, err
}

func (b *brokerFlags) tlsConfig() (*tls.Config, error) {
	if b.ca == "" && b.cert == "" && b.key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if b.ca != "" {
		pem, err := os.ReadFile(b.ca)
		if err != nil {
			return nil, usagef("--broker-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--broker-ca %s: there is no certificate in it", b.ca)
		}
	}
	if (b.cert == "") != (b.key == "") {
		return nil, usagef("--broker-cert and --broker-key go together")
	}
	if b.cert != "" {
		b.warnIfOpen("--broker-key", b.key)
		// Read anew for each connection, so that a renewed certificate is used.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(b.cert, b.key)
			return &pair, err
		}
		if _, err := tls.LoadX509KeyPair(b.cert, b.key); err != nil {
			return nil, usagef("--broker-cert and --broker-key: %w", err)
		}
	}
	return config, nil
}

// withClient calls f with a client of some options, and closes its broker after.
func (a *app) withClient(ctx context.Context, f func(*windlass.Client) error, options ...windlass.ClientOption) (err error) {
	store, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client, err := windlass.NewClient(store, a.namespace, options...)
	if err != nil {
		return err
	}
	return f(client)
}
