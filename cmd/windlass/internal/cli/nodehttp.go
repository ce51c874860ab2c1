package cli

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/internal/conns"
	"github.com/windlass-go/windlass/observe/metrics"
)

// nodeHTTPFlags say where a node serves its metrics and probes.
type nodeHTTPFlags struct {
	listen    string
	tokenFile string
}

func (f *nodeHTTPFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "metrics-listen", "", "address for /metrics, /livez and /readyz, such as 127.0.0.1:9464; default: none")
	flags.StringVar(&f.tokenFile, "metrics-token-file", "", `file with tokens that /metrics asks for, lines of "windlass token"; without it only this machine gets them`)
}

// Times of a connection to a node.
const (
	nodeHTTPTimeout  = 10 * time.Second
	nodeHTTPShutdown = 2 * time.Second
)

// nodeHTTP serves a node's metrics and probes. A nil one does nothing.
type nodeHTTP struct {
	listener net.Listener
	metrics  http.Handler
	tokens   *api.Tokens
	log      *slog.Logger

	server  *http.Server
	serving sync.WaitGroup
	err     error // of the server, once it has ended
}

// open listens, and adds metrics to the node; nil without --metrics-listen.
func (f *nodeHTTPFlags) open(c *workerConfig) (*nodeHTTP, error) {
	if f.listen == "" {
		if f.tokenFile != "" {
			return nil, usagef("--metrics-token-file goes with --metrics-listen")
		}
		return nil, nil
	}
	h := &nodeHTTP{log: c.log}
	var err error
	if f.tokenFile != "" {
		if h.tokens, err = api.LoadTokens(f.tokenFile, c.log); err != nil {
			return nil, usagef("--metrics-token-file: %w", err)
		}
	}
	if c.metrics, err = metrics.New(metrics.Config{Namespace: c.Namespace}); err != nil {
		return nil, err
	}
	h.metrics = c.metrics.Handler()
	if h.listener, err = net.Listen("tcp", f.listen); err != nil {
		return nil, usagef("--metrics-listen %q: %w", f.listen, err)
	}
	if tcp, ok := h.listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		if h.tokens == nil {
			c.log.Info("without --metrics-token-file only this machine gets metrics; others get the probes", "listen", h.listener.Addr())
		} else {
			c.log.Warn("tokens are taken without TLS: whoever can read the network's traffic can take them", "listen", h.listener.Addr())
		}
	}
	return h, nil
}

// serve answers for a node until close.
func (h *nodeHTTP) serve(node *windlass.Node) {
	if h == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !node.Stats().Joined {
			answer(w, http.StatusServiceUnavailable, "not joined")
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if status, text := h.refuses(r); status != 0 {
			answer(w, status, text)
			return
		}
		h.metrics.ServeHTTP(w, r)
	})
	h.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: nodeHTTPTimeout, ReadTimeout: nodeHTTPTimeout, WriteTimeout: nodeHTTPTimeout,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug), ConnState: conns.New(0).Track,
	}
	h.serving.Go(func() {
		if h.err = h.server.Serve(h.listener); errors.Is(h.err, http.ErrServerClosed) {
			h.err = nil
		}
	})
}

// refuses returns why a request gets no metrics; zero if it gets them.
func (h *nodeHTTP) refuses(r *http.Request) (status int, text string) {
	if h.tokens != nil {
		token, isToken := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, found := h.tokens.Find(strings.TrimSpace(token)); !isToken || !found {
			return http.StatusUnauthorized, "a token of --metrics-token-file is needed"
		}
		return 0, ""
	}
	if from, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !net.ParseIP(from).IsLoopback() {
		return http.StatusForbidden, "only this machine gets metrics without --metrics-token-file"
	}
	// A web page whose host name resolves to this machine sends that name.
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return http.StatusMisdirectedRequest, "it is not called that; ask for 127.0.0.1 or localhost"
	}
	return 0, ""
}

// answer has the form of the HTTP API's probes.
func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": text}) // who asked may have left
}

// close ends it, and gives requests under way a moment.
func (h *nodeHTTP) close() error {
	if h == nil {
		return nil
	}
	if h.server == nil {
		return h.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodeHTTPShutdown)
	defer cancel()
	err := h.server.Shutdown(ctx)
	if err != nil {
		err = h.server.Close()
	}
	h.serving.Wait()
	return errors.Join(err, h.err)
}

// measuredServer is the HTTP API on a broker, with its metrics.
func measuredServer(c api.Config, store broker.Broker) (*api.Server, error) {
	config := metrics.Config{Namespace: c.Namespace}
	if e, ok := store.(*etcd.Broker); ok {
		config.Space = e.Space
	}
	m, err := metrics.New(config)
	if err != nil {
		return nil, err
	}
	c.Broker, c.Metrics = m.Broker(store), m.Handler()
	server, err := api.New(c)
	if err != nil {
		return nil, err
	}
	m.Count(server.TaskCounts)
	return server, nil
}

// devMetrics are those of a dev, with those of its etcd.
func devMetrics(server *embedded.Server, namespace string) (*metrics.Metrics, error) {
	return metrics.New(metrics.Config{
		Namespace: namespace, Also: []prometheus.Gatherer{metrics.Only(prometheus.DefaultGatherer, "etcd_", "grpc_")},
		Space: func(ctx context.Context) (used, quota int64, err error) {
			store := server.Broker()
			used, quota, err = store.Space(ctx)
			return used, quota, errors.Join(err, store.Close())
		},
	})
}
