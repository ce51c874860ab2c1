package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/session"
)

type serveFlags struct {
	listen     string
	tokenFile  string
	cert       string
	key        string
	clientCA   string
	clientRole string
	localRole  string
	// noDashboard leaves the pages out.
	noDashboard bool
	// config has the flags that need no check here.
	config api.Config
}

// listenDefault is the default of --listen.
const listenDefault = "127.0.0.1:8090"

// roles are the names of the API's roles.
var roles = []string{"view", "operate", "admin"}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API and the dashboard",
		Long: `Serve the HTTP API: what these commands do, with the same JSON, and changes as they
happen. GET /openapi.json describes it; docs/reference/api.md is its guide. The dashboard, pages
for a browser that use it, is at the same address; --no-dashboard leaves it out.

Without --token-file and --client-ca it answers this machine alone, on a loopback
address, where every user of this machine may look at everything and change nothing;
see --local-role. With one of them it can listen anywhere, and needs --host for the
names of its host.
Every change that is tried is logged to standard error.`,
		Example: `  windlass serve
  windlass token operate deploy >> tokens
  windlass serve --listen :8443 --host fleet.example --token-file tokens --tls-cert crt.pem --tls-key key.pem`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", listenDefault, "address to listen on, as host:port")
	flags.StringVar(&f.tokenFile, "token-file", "", `file with the roles, names and hashes of tokens, lines of "windlass token"; read again when it changes`)
	flags.StringVar(&f.cert, "tls-cert", "", "file with the certificate to show (PEM); read for each connection")
	flags.StringVar(&f.key, "tls-key", "", "file with the key of that certificate (PEM)")
	flags.StringVar(&f.clientCA, "client-ca", "", "file with the certificates that those of clients must come from (PEM)")
	flags.StringVar(&f.clientRole, "client-role", "view", "role of who shows such a certificate: view, operate or admin")
	flags.StringVar(&f.localRole, "local-role", "view", "role of every user of this machine without --token-file and --client-ca: view, operate or admin")
	flags.StringArrayVar(&f.config.Hosts, "host", nil, "name that requests may be addressed to, with a port or for any; repeatable; default: localhost, 127.0.0.1 and [::1]")
	flags.StringArrayVar(&f.config.Origins, "origin", nil, "web site, as https://host, whose pages may change something; repeatable")
	flags.StringVar(&f.config.Prefix, "prefix", "", "prefix of all paths, such as /windlass")
	flags.BoolVar(&f.config.ReadOnly, "read-only", false, "change nothing, whoever asks")
	flags.BoolVar(&f.noDashboard, "no-dashboard", false, "serve the API without its web pages")
	completeFlag(cmd, "client-role", roles)
	completeFlag(cmd, "local-role", roles)
	return cmd
}

func (a *app) serve(ctx context.Context, f serveFlags) (err error) {
	config, secure, err := a.serveConfig(f)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return usagef("--listen %q: %w", f.listen, err)
	}
	defer listener.Close() // Serve closes it as well
	// Serve would refuse it as well, but needs a broker first.
	if err := config.CheckListen(listener.Addr()); err != nil {
		return err
	}
	store, err := a.openPatiently(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	stopTracing, err := a.startTracing(ctx, config.Logger, &config.Tracer)
	if err != nil {
		return err
	}
	defer stopTracing()
	server, err := measuredServer(config, store)
	if err != nil {
		return err
	}
	space, err := a.space()
	if err != nil {
		return err
	}
	outliveReaders()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	// When the last node has died, somebody must end its session and its claims.
	witnessing, stop := context.WithCancel(ctx)
	var witness sync.WaitGroup
	witness.Go(func() { _ = session.Witness(witnessing, store, session.Config{Folder: space.Sessions()}) }) // as far as it may
	defer func() { stop(); witness.Wait() }()
	fmt.Fprintf(a.err, "serving %s\n", urlOf(listener.Addr().String(), secure != nil, f.config.Prefix))
	if config.Dashboard {
		fmt.Fprintf(a.err, "dashboard at %s/\n", urlOf(named(listener.Addr().String(), f.config.Hosts), secure != nil, f.config.Prefix))
	}
	if config.Tokens == nil && config.CertificateRole == 0 {
		fmt.Fprintf(a.err, "There are no tokens: every user of this machine has the role %s. See --local-role and --token-file.\n", config.LocalRole)
	}
	return server.Serve(ctx, listener, secure)
}

// collectAt is the GOGC of serve. Its heap is mostly the copy of the tasks, which Go's 100
// would double.
const collectAt = 50

func urlOf(address string, secure bool, prefix string) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return scheme + address + prefix
}

// named is the address with a name that the server answers to.
func named(address string, hosts []string) string {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return address
	case len(hosts) > 0:
		if _, _, err := net.SplitHostPort(hosts[0]); err == nil {
			return hosts[0]
		}
		return net.JoinHostPort(strings.Trim(hosts[0], "[]"), port)
	case net.ParseIP(host).IsUnspecified():
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// serveConfig makes the configuration from the flags, without the broker.
func (a *app) serveConfig(f serveFlags) (config api.Config, secure *tls.Config, err error) {
	log := a.logger(slog.LevelInfo, false)
	config = f.config
	config.Namespace, config.Check, config.Logger = a.namespace, checkSubmission, log
	config.Dashboard, config.BrokerKind = !f.noDashboard, a.broker.kind()
	if config.LocalRole, err = api.ParseRole(f.localRole); err != nil {
		return config, nil, usagef("--local-role: %w", err)
	}
	if f.tokenFile != "" {
		if config.Tokens, err = api.LoadTokens(f.tokenFile, log); err != nil {
			return config, nil, usagef("--token-file: %w", err)
		}
	}
	if secure, err = f.tls(a.broker.warnIfOpen); err != nil || f.clientCA == "" {
		return config, secure, err
	}
	if config.CertificateRole, err = api.ParseRole(f.clientRole); err != nil {
		return config, nil, usagef("--client-role: %w", err)
	}
	return config, secure, nil
}

// tls is nil if there is no certificate.
func (f serveFlags) tls(warnIfOpen func(flag, file string)) (*tls.Config, error) {
	switch {
	case (f.cert == "") != (f.key == ""):
		return nil, usagef("--tls-cert and --tls-key go together")
	case f.cert == "" && f.clientCA != "":
		return nil, usagef("--client-ca goes with --tls-cert and --tls-key")
	case f.cert == "":
		return nil, nil
	}
	warnIfOpen("--tls-key", f.key)
	load, err := loaderOf("--tls-cert and --tls-key", f.cert, f.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
	}
	if f.clientCA == "" {
		return config, nil
	}
	if config.ClientCAs, err = readCertificates("--client-ca", f.clientCA); err != nil {
		return nil, err
	}
	// Who shows none may have a token, or be a probe.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}

// checkSubmission finds mistakes in the properties of a command, as task submit does.
func checkSubmission(s windlass.Submission) error {
	err := checkExec(s)
	if input, ok := errors.AsType[*exectask.InputError](err); ok {
		return &windlass.BadInputError{Field: input.Field, Value: input.Value, Limit: input.Limit}
	}
	return err
}

// newToken is a token as it is printed, once. Its JSON is stable.
type newToken struct {
	Token string `json:"token"`
	// Line is for the token file.
	Line string `json:"line"`
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token ROLE NAME",
		Short: "Make a token for the HTTP API",
		Long: `Make a token for the HTTP API: view looks at everything, operate submits, deletes and
commands besides, and admin forgets and clears. The token is printed once, to standard
error, and kept nowhere; the line for the token file, which has its hash alone, goes
to standard output. With -o json both go to standard output.

To replace a token add the line of a new one under the same name, hand it out, and
remove the old line: both are valid until then.`,
		Example: `  windlass token operate deploy >> tokens`,
		Args:    exactArgs("ROLE", "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			role, err := api.ParseRole(args[0])
			if err != nil {
				return usageError{err}
			}
			t := newToken{Token: api.NewToken()}
			if t.Line, err = api.TokenLine(role, args[1], t.Token); err != nil {
				return usageError{err}
			}
			if a.output != "table" {
				return a.print(t, nil)
			}
			fmt.Fprintln(a.err, "token:", t.Token)
			_, err = fmt.Fprintln(a.out, t.Line)
			return err
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return roles, cobra.ShellCompDirectiveNoFileComp
		},
	}
	return a.outputFlag(cmd)
}
