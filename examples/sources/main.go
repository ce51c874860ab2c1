// Command sources is a worked example of a tree of jobs: it takes an inventory of a
// source tree, by default the sources of Go itself, with some 2,000 jobs.
//
//	src_list                            finds the folders, and queues all that is below
//	├─ src:net_package                  lists the Go files of a folder
//	│  └─ src:net_hash                  reads them, and hashes each
//	├─ src:net:http_package
//	│  └─ src:net:http_hash
//	├─ src:net:http_merge               needs src:net:http_hash
//	├─ src:net_merge                    needs src:net_hash, src:net:http_merge and so on
//	├─ src_merge                        needs the merges of all top folders
//	└─ src_report                       needs src_merge
//
// No job starts before the one above it and those that it needs are completed, on
// whatever node; what it needs of them it reads as their results. In a clone of this
// repository:
//
//	go run ./examples/sources
//
// runs everything in one process, with a broker in a temporary folder whose name it
// prints. Other nodes can join meanwhile, and be killed, by
//
//	go run ./examples/sources node --broker <folder> --name x
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/tree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sources:", err)
		os.Exit(1)
	}
}

// options are the flags; the first three are of the program, the others of node.
type options struct {
	root               string
	nodes, concurrency int
	broker, name       string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("sources", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "", "folder of the sources; default: those of the Go installation")
	flags.IntVar(&o.nodes, "nodes", 3, "number of nodes in this process")
	flags.IntVar(&o.concurrency, "concurrency", 4, "number of folders that a node hashes at a time")
	flags.StringVar(&o.broker, "broker", "", "node: folder of the broker")
	flags.StringVar(&o.name, "name", "", "node: its name; default: the host's")
	command := runAll
	if len(args) > 0 && args[0] == "node" {
		command, args = join, args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q; usage: sources [node] [flags]", flags.Arg(0))
	}
	return command(ctx, o, out)
}

// runAll runs broker and nodes, and compares their report with what one function says.
func runAll(ctx context.Context, o options, out io.Writer) (err error) {
	root, err := rootFolder(ctx, o.root)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "sources-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	server, err := embedded.Start(ctx, embedded.Config{Dir: folder, Socket: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintf(out, "sources in %s, broker in %s\n", root, folder)

	ctx, cancel := context.WithCancelCause(ctx)
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer cancel(nil)
	for i := range o.nodes { // each with a connection of its own
		node, err := newNode(server.Broker(), fmt.Sprintf("node-%d", i+1), o.concurrency)
		if err != nil {
			return err
		}
		nodes.Go(func() { cancel(node.Run(ctx)) })
	}
	jobs, err := tree.New(server.Broker(), "")
	if err != nil {
		return err
	}
	if err := errors.Join(jobs.Init(ctx), start(ctx, jobs, root)); err != nil {
		return err
	}
	return finish(ctx, server.Broker(), jobs, root, out)
}

// finish waits for the report, and checks it.
func finish(ctx context.Context, store broker.Broker, jobs *tree.Tree, root string, out io.Writer) error {
	begin := time.Now()
	if err := await(ctx, jobs, out); err != nil {
		return err
	}
	took := time.Since(begin)
	reported, err := report(ctx, store)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d packages, %d files, %d bytes, SHA-256 %s\n", reported.Packages, reported.Files, reported.Bytes, reported.Digest)
	begin = time.Now()
	want, err := direct(ctx, os.DirFS(root))
	switch {
	case err != nil:
		return err
	case want != reported:
		return fmt.Errorf("one function says %+v", want)
	}
	fmt.Fprintf(out, "the jobs took %v; one function says the same in %v\n", took.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	return nil
}

// report is the result of the report job.
func report(ctx context.Context, store broker.Broker) (summary, error) {
	client, err := windlass.NewClient(store, "")
	if err != nil {
		return summary{}, err
	}
	results, err := client.Results(ctx, reportPath.ID())
	if err != nil {
		return summary{}, err
	}
	return result[summary](results, reportPath.ID())
}

// rootFolder is the folder of the sources.
func rootFolder(ctx context.Context, given string) (string, error) {
	if given == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("find the sources of Go: %w", err)
		}
		given = filepath.Join(strings.TrimSpace(string(out)), "src")
	}
	if info, err := os.Stat(given); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("--root %s: must be a folder", given)
	}
	return filepath.Abs(given)
}

// join runs one node more until ctx ends.
func join(ctx context.Context, o options, _ io.Writer) (err error) {
	store, err := embedded.Dial(ctx, o.broker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	node, err := newNode(store, o.name, o.concurrency)
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// newNode makes a node. Only hash jobs are bounded: it is them that read the disk.
func newNode(store broker.Broker, name string, concurrency int) (*windlass.Node, error) {
	jobs, err := tree.New(store, "")
	if err != nil {
		return nil, err
	}
	return windlass.NewNode(windlass.Config{
		Broker: store, Name: name, Handlers: worker{jobs: jobs}.handlers(),
		Concurrency: map[string]int{typeHash: concurrency}, SessionTTL: 5 * time.Second,
	})
}
