package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api/dashboard"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/conns"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/tree"
)

// Server is the HTTP API; see New. Its methods are safe for concurrent use.
type Server struct {
	config    Config
	tasks     *windlass.TaskCopy
	client    *windlass.Client
	inspector *inspect.Inspector
	operator  *operate.Operator
	leases    *lease.Leases
	tree      *tree.Tree
	mux       *http.ServeMux
	huma      huma.API
	origins   *http.CrossOriginProtection
	limiter   *limiter
	budget    *budget
	hub       *hub
	charts    *charts
	probe     probe
	// pages are nil without a dashboard.
	pages *dashboard.Pages
	// document is the OpenAPI document.
	document []byte
	// endpoints are by the mux's pattern.
	endpoints map[string]*endpoint
}

// New returns a server for a namespace. It makes no call to the broker yet. An invalid
// configuration is a *windlass.BadInputError.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Namespace = "/" + strings.Trim(cmp.Or(c.Namespace, windlass.NamespaceDefault), " /") // as the client does
	c.Hosts = slices.Clone(c.Hosts)
	for i, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil && strings.Contains(host, ":") {
			c.Hosts[i] = "[" + host + "]" // as clients write it
		}
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Audit = cmp.Or(c.Audit, c.Logger)
	c.Limits = c.Limits.withDefaults()
	tasks, err := windlass.NewTaskCopy(c.Broker, c.Namespace)
	if err != nil {
		return nil, err
	}
	client, err := windlass.NewClient(tasks.Broker(), c.Namespace, windlass.WithTracer(c.Tracer), windlass.WithTaskCopy(tasks))
	if err != nil {
		return nil, err
	}
	jobs, err := tree.New(tasks.Broker(), c.Namespace, windlass.WithTracer(c.Tracer), windlass.WithTaskCopy(tasks))
	if err != nil {
		return nil, err
	}
	jobs.Limit(BatchMax, LooksMax)
	s := &Server{
		config: c, tasks: tasks, client: client, inspector: inspect.New(client), operator: operate.New(client), leases: lease.New(client, c.Tracer), tree: jobs, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		limiter: newLimiter(c.Limits), budget: newBudget(c.Limits), endpoints: map[string]*endpoint{}, probe: probe{turn: make(chan struct{}, 1)},
		hub: newHub(c.Limits), charts: newCharts(),
	}
	if c.Dashboard {
		s.pages = dashboard.New()
	}
	for _, origin := range c.Origins {
		if err := s.origins.AddTrustedOrigin(origin); err != nil {
			return nil, badInput("Origins", origin, err.Error())
		}
	}
	s.huma = humago.NewWithPrefix(s.mux, c.Prefix, s.humaConfig())
	s.register()
	if s.document, err = json.Marshal(s.huma.OpenAPI()); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	return s, nil
}

func (s *Server) humaConfig() huma.Config {
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Windlass", Version: view.BuildVersion().Version,
				Description: "Runs tasks on a fleet. The JSON is that of the command line's -o json.",
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
			},
			Servers:  []*huma.Server{{URL: s.config.Prefix + "/"}},
			Security: []map[string][]string{{"token": {}}},
		},
		// "json" is for problems and patches: huma uses the part of the media type after the plus.
		Formats:       map[string]huma.Format{jsonType: jsonFormat, "json": jsonFormat},
		DefaultFormat: jsonType,
		Transformers:  []huma.Transformer{asProblem},
		// A filter that is misspelled must not select everything.
		RejectUnknownQueryParameters: true,
	}
	if s.config.Prefix != "" {
		c.Servers = []*huma.Server{{URL: s.config.Prefix}}
	}
	return c
}

func (s *Server) register() {
	aliasSchemas(s.huma.OpenAPI().Components.Schemas)
	s.registerSystem()
	s.registerHealth()
	s.registerCharts()
	s.registerTasks()
	s.registerCommands()
	s.registerNodes()
	s.registerTypes()
	s.registerJobs()
	s.registerElections()
	s.registerEvents()
	finishSchemas(s.huma.OpenAPI().Components.Schemas)
}

// TaskCounts counts the tasks of the namespace by status, without a call to the broker.
// It returns nil unless Run or Serve is following the tasks, and while they begin or
// the broker is unreachable.
func (s *Server) TaskCounts() map[windlass.Status]int { return s.tasks.Count() }

// Run follows the broker for the streams of events until ctx is done, and returns when
// everything that it started has ended. While the broker is unreachable it retries, and
// reports that in the streams. Without Run, streams are refused.
func (s *Server) Run(ctx context.Context) error {
	if !s.hub.start() {
		return errRunning
	}
	s.follow(ctx)
	return nil
}

var errRunning = errors.New("api: the server runs already")

const (
	idleTimeout    = 2 * time.Minute
	headerBytesMax = 32 << 10
	// shutdownMax is how long requests may go on when the server stops.
	shutdownMax = 10 * time.Second
)

// Serve answers requests on a listener, which it closes, and does what Run does, until
// ctx is done. It then gives requests in progress 10 s to end. It refuses an address that
// CheckListen refuses. With a TLS configuration it speaks TLS only.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	if err := s.config.CheckListen(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if !s.hub.start() {
		return errors.Join(errRunning, listener.Close())
	}
	if config != nil {
		config = config.Clone()
		config.NextProtos = []string{"h2", "http/1.1"}
		listener = tls.NewListener(listener, config)
	} else if !s.config.open() && !isLoopback(listener.Addr().String()) {
		s.config.Logger.Warn("tokens are taken without TLS: whoever can read the network's traffic can take them", "listen", listener.Addr())
	}
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: s.config.Limits.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug), ConnState: conns.New(s.config.Limits.ConnectionsMax).Track,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var shutdown error
	running.Go(func() { s.follow(ctx) })
	running.Go(func() {
		<-ctx.Done()
		within, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownMax)
		defer done()
		if shutdown = server.Shutdown(within); shutdown != nil {
			shutdown = errors.Join(shutdown, server.Close())
		}
	})
	err := server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	cancel()
	running.Wait()
	return errors.Join(err, shutdown)
}
