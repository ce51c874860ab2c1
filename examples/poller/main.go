// Command poller is a worked example: a poller for each customer that pauses,
// sleeps, checkpoints and survives the death of its node.
//
//	source (feed.go) <--GET ?after=cursor-- node (poll.go) --append--> file (output.go)
//	                                          |
//	                                        broker: one task for each customer, its
//	                                        state, and the cursor it has come to
//
// In four terminals, in a clone of this repository:
//
//	go run ./examples/poller source
//	go run ./examples/poller node --data /tmp/poller --name a
//	go run ./examples/poller node --broker /tmp/poller --name b
//	go run ./examples/poller submit --broker /tmp/poller acme globex initech
//
// Then direct it, kill node b, and see that nothing is missing:
//
//	go run ./cmd/windlass --broker /tmp/poller task pause acme --wait
//	go run ./cmd/windlass --broker /tmp/poller task get acme
//	go run ./examples/poller show acme
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "poller:", err)
		os.Exit(1)
	}
}

// options are the flags of all subcommands, of which each uses some.
type options struct {
	data, broker, name, out, source string
	every, ttl                      time.Duration
	customers                       []string
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, options) error{"source": source, "node": node, "submit": submit, "show": show}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: poller source|node|submit|show [flags] [customer ...]")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.data, "data", "", "node: folder of a broker to run in this process")
	flags.StringVar(&o.broker, "broker", "", "node, submit: etcd://host:port,host:port, or the folder of a broker that runs on this machine")
	flags.StringVar(&o.name, "name", "", "node: its name; default: the host's")
	flags.StringVar(&o.out, "out", "poller-out", "node, show: folder for what was polled")
	flags.StringVar(&o.source, "source", "127.0.0.1:8099", "source, submit: address of the source")
	flags.DurationVar(&o.every, "every", time.Second, "source: time between items; submit: time between polls")
	flags.DurationVar(&o.ttl, "session-ttl", 5*time.Second, "node: how long it may be out of touch before others take over")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	o.customers = flags.Args()
	if o.every <= 0 {
		return fmt.Errorf("--every %v: must be positive", o.every)
	}
	return commands[args[0]](ctx, o)
}

// source serves feeds that grow, and is busy at the end of each minute.
func source(ctx context.Context, o options) error {
	start := time.Now()
	feeds := feed{
		published: func(string) int64 { return int64(time.Since(start) / o.every) },
		busy:      func() time.Duration { return time.Duration(max(time.Now().Second()-50, 0)) * time.Second },
	}
	server := &http.Server{Addr: o.source, Handler: feeds.handler(), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// open connects to the broker, or runs one in this process. Any process of this
// user reaches it by its folder, the windlass command included.
func open(ctx context.Context, o options) (store broker.Broker, end func() error, err error) {
	endpoints, external := strings.CutPrefix(o.broker, "etcd://")
	switch {
	case (o.data == "") == (o.broker == ""):
		return nil, nil, errors.New("--data or --broker must be given, and not both")
	case o.data != "":
		server, err := embedded.Start(ctx, embedded.Config{Dir: o.data, Socket: true})
		if err != nil {
			return nil, nil, err
		}
		return server.Broker(), server.Close, nil
	case external:
		store, err = etcd.Open(ctx, etcd.Config{Endpoints: strings.Split(endpoints, ",")})
	default:
		store, err = embedded.Dial(ctx, o.broker)
	}
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// node runs tasks until ctx ends.
func node(ctx context.Context, o options) (err error) {
	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return err
	}
	store, end, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	config := nodeConfig(&poller{client: &http.Client{Timeout: 10 * time.Second}, out: output{dir: o.out}})
	config.Broker, config.Name, config.SessionTTL = store, o.name, o.ttl
	config.Events = windlass.LogEvents(slog.Default())
	n, err := windlass.NewNode(config)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// nodeConfig is what makes a node one that polls.
func nodeConfig(p *poller) windlass.Config {
	return windlass.Config{
		Handlers:      map[string]windlass.NewHandler{taskType: windlass.Stateful(p.run)},
		ErrorHandlers: map[string]windlass.ErrorHandler{taskType: decide},
	}
}

// submit submits a task for each customer. Those that exist stay as they are.
func submit(ctx context.Context, o options) (err error) {
	store, end, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	client, err := windlass.NewClient(store, "")
	if err != nil {
		return err
	}
	for _, customer := range o.customers {
		what, err := json.Marshal(props{URL: "http://" + o.source + "/feeds/" + customer, Every: windlass.Duration(o.every)})
		if err == nil {
			err = client.Submit(ctx, windlass.Submission{ID: customer, Spec: windlass.Spec{Type: taskType}, Props: what})
		}
		if err != nil && !windlass.AlreadySubmitted(err) {
			return err
		}
	}
	return nil
}

// show prints what was polled.
func show(_ context.Context, o options) error {
	for _, customer := range o.customers {
		file, err := os.Open(output{dir: o.out}.path(customer))
		if err != nil {
			return err
		}
		lines, err := accepted(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		for _, l := range lines {
			fmt.Printf("%d\t%s\t(token %d)\n", l.Cursor, l.Text, l.Token)
		}
	}
	return nil
}
