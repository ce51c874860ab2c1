package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// brokerFlags say which broker to use, and as whom.
type brokerFlags struct {
	address      string
	ca           string
	cert         string
	key          string
	user         string
	passwordFile string
}

func (b *brokerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&b.address, "broker", "", "etcd://host:port,host:port, or the data folder of a running dev; default: this user's running dev")
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
	endpoints, external := strings.CutPrefix(address, etcdScheme)
	if !external {
		if scheme, _, ok := strings.Cut(address, "://"); ok {
			return nil, usagef("--broker %q: the scheme %q is not known; give %shost:port or a folder", address, scheme, etcdScheme)
		}
		store, err := embedded.Dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	config, err := b.etcdConfig(endpoints)
	if err != nil {
		return nil, err
	}
	store, err := etcd.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (b *brokerFlags) etcdConfig(endpoints string) (etcd.Config, error) {
	config := etcd.Config{Endpoints: strings.Split(endpoints, ","), Username: b.user}
	if b.passwordFile != "" {
		password, err := os.ReadFile(b.passwordFile)
		if err != nil {
			return config, usagef("--broker-password-file: %w", err)
		}
		config.Password = strings.TrimSpace(string(password))
	}
	var err error
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

// withClient calls f with a client, and closes its broker after.
func (a *app) withClient(ctx context.Context, f func(*windlass.Client) error) (err error) {
	store, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client, err := windlass.NewClient(store, a.namespace)
	if err != nil {
		return err
	}
	return f(client)
}
