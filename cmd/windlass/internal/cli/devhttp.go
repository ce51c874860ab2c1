package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// devAPI is the HTTP API of a dev. All users of the machine can reach its port, and whoever
// can submit a task of type exec acts as this user. So it requires a token, which is new for
// each start and lies in a folder of this user's own.
type devAPI struct {
	server   *api.Server
	listener net.Listener
	store    broker.Broker
	url      string
	// page is the address of the dashboard with the token, and pageFile a file that has it;
	// empty without a dashboard.
	page, pageFile string
	// header is a file for -H @FILE of curl.
	header string
}

// The files of the token, in the folder of the data.
const (
	devTokensFile = "http-tokens"
	devHeaderFile = "http-header"
	devPageFile   = "http-page"
)

// listenDev listens on an address, or on a free port if the default one is in use.
func listenDev(address string, chosen bool) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && !chosen {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, usagef("--listen %q: %w", address, err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(usagef("--listen %q: must be a loopback address; \"windlass serve\" can listen elsewhere", address), listener.Close())
	}
	return listener, nil
}

// openDevAPI makes the API on a listener. The sessions are those of the dev's nodes.
func (a *app) openDevAPI(server *embedded.Server, listener net.Listener, c workerConfig, pages bool, sessions func() []api.Session) (*devAPI, error) {
	d := &devAPI{listener: listener, url: urlOf(listener.Addr().String(), false, ""), header: filepath.Join(server.Dir(), devHeaderFile)}
	tokens, token, err := d.token(server.Dir(), c.log)
	if err != nil {
		return nil, err
	}
	if pages {
		// A browser keeps what is behind the #: no server, and no log, gets it.
		d.page, d.pageFile = d.url+"/#token="+token, filepath.Join(server.Dir(), devPageFile)
		if err := writePrivate(d.pageFile, d.page+"\n"); err != nil {
			return nil, fmt.Errorf("write the address of the dashboard down: %w", err)
		}
	}
	d.store = server.Broker()
	d.server, err = api.New(api.Config{
		Broker: c.metrics.Broker(d.store), Namespace: a.namespace, Tokens: tokens, Check: checkSubmission, Logger: c.log,
		Metrics: c.metrics.Handler(), Tracer: c.Tracer, Dashboard: pages, BrokerKind: embeddedKind, Sessions: sessions,
	})
	if err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	c.metrics.Count(d.server.TaskCounts)
	return d, nil
}

// token makes a token, and writes it to files of this user.
func (d *devAPI) token(dir string, log *slog.Logger) (_ *api.Tokens, token string, err error) {
	token = api.NewToken()
	line, err := api.TokenLine(api.RoleAdmin, "dev", token)
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, devTokensFile)
	if err := errors.Join(writePrivate(path, line+"\n"), writePrivate(d.header, "Authorization: Bearer "+token+"\n")); err != nil {
		return nil, "", fmt.Errorf("write the token of the HTTP API down: %w", err)
	}
	tokens, err := api.LoadTokens(path, log)
	return tokens, token, err
}

// writePrivate makes a file that this user alone can read. It replaces one that exists,
// which others may be able to read, or may have open.
func writePrivate(path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// run serves until ctx is done. The connection is closed afterwards.
func (d *devAPI) run(ctx context.Context) error {
	if d == nil {
		return nil
	}
	return errors.Join(d.server.Serve(ctx, d.listener, nil), d.store.Close())
}
