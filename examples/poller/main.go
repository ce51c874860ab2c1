// Command poller is a worked example: a poller for each customer that pauses,
// sleeps, checkpoints and survives the death of its node.
//
//	source (feed.go) <--GET ?after=cursor-- node (poll.go) --append--> file (output.go)
//	                                          |
//	                                        broker: one task for each customer, its
//	                                        state, and the cursor it has come to
//
// In three terminals, in a clone of this repository:
//
//	go run ./examples/poller --data /tmp/poller --name a --source 127.0.0.1:8099
//	go run ./examples/poller --broker /tmp/poller --name b
//	go run ./cmd/windlass --broker /tmp/poller task submit acme --type poll \
//	    --props '{"url": "http://127.0.0.1:8099/feeds/acme", "every": "1s"}'
//
// Then direct it, kill node b, and see that nothing is missing:
//
//	go run ./cmd/windlass --broker /tmp/poller task pause acme --wait
//	go run ./cmd/windlass --broker /tmp/poller task get acme
//	go run ./examples/poller --show acme
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/events"
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

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("poller", flag.ContinueOnError)
	data := flags.String("data", "", "folder of a broker to run in this process")
	address := flags.String("broker", "", "etcd://host:port,host:port, or the folder of a broker that runs on this machine")
	name := flags.String("name", "", "name of the node; default: the host's")
	out := output{}
	flags.StringVar(&out.dir, "out", "poller-out", "folder for what is polled")
	source := flags.String("source", "", "address at which to serve feeds to poll")
	customer := flags.String("show", "", "print what was polled for this customer, and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *customer != "" {
		return show(out, *customer)
	}
	if err := os.MkdirAll(out.dir, 0o700); err != nil {
		return err
	}
	store, end, err := open(ctx, *data, *address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	config := nodeConfig(&poller{client: &http.Client{Timeout: 10 * time.Second}, out: out})
	config.Broker, config.Name, config.SessionTTL = store, *name, 5*time.Second
	config.Events = events.Log(slog.Default())
	node, err := windlass.NewNode(config)
	if err != nil {
		return err
	}
	if *source != "" {
		server := &http.Server{Addr: *source, Handler: growing().handler(), ReadHeaderTimeout: 5 * time.Second}
		var serving sync.WaitGroup
		defer serving.Wait()
		defer func() { err = errors.Join(err, server.Close()) }()
		serving.Go(func() {
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				slog.Error("the source", "error", err)
			}
		})
	}
	return node.Run(ctx)
}

// growing are feeds that grow by an item a second, and are busy at the end of each minute.
func growing() feed {
	start := time.Now()
	return feed{
		published: func(string) int64 { return int64(time.Since(start) / time.Second) },
		busy:      func() time.Duration { return time.Duration(max(time.Now().Second()-50, 0)) * time.Second },
	}
}

// open connects to the broker, or runs one in this process. Any process of this
// user reaches it by its folder, the windlass command included.
func open(ctx context.Context, data, address string) (store broker.Broker, end func() error, err error) {
	endpoints, external := strings.CutPrefix(address, "etcd://")
	switch {
	case (data == "") == (address == ""):
		return nil, nil, errors.New("--data or --broker must be given, and not both")
	case data != "":
		server, err := embedded.Start(ctx, embedded.Config{Dir: data, Socket: true})
		if err != nil {
			return nil, nil, err
		}
		return server.Broker(), server.Close, nil
	case external:
		store, err = etcd.Open(ctx, etcd.Config{Endpoints: strings.Split(endpoints, ",")})
	default:
		store, err = embedded.Dial(ctx, address)
	}
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// nodeConfig is what makes a node one that polls.
func nodeConfig(p *poller) windlass.Config {
	return windlass.Config{
		Handlers:      map[string]windlass.NewHandler{taskType: windlass.Stateful(p.run)},
		ErrorHandlers: map[string]windlass.ErrorHandler{taskType: decide},
	}
}

// show prints what was polled for a customer.
func show(out output, customer string) error {
	file, err := os.Open(out.path(customer))
	if err != nil {
		return err
	}
	lines, err := accepted(file)
	for _, l := range lines {
		fmt.Printf("%d\t%s\t(token %d)\n", l.Cursor, l.Text, l.Token)
	}
	return errors.Join(err, file.Close())
}
