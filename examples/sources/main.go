// Command sources is a worked example of a map and reduce by a tree of jobs: it hashes a
// source tree, by default that of Go itself, with some 800 jobs.
//
//	src_list                 finds the folders, and queues what is below
//	├─ src_hash              reads the Go files of a folder
//	└─ src:net:http_hash
//	all_sum                  needs all below src_list, and adds it up: the report
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
//	go run ./examples/sources --join <folder> --name x
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

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sources", flag.ContinueOnError)
	root := flags.String("root", "", "folder of the sources; default: those of the Go installation")
	nodes := flags.Int("nodes", 3, "number of nodes in this process")
	folder := flags.String("join", "", "run one node more, on the broker in this folder")
	name := flags.String("name", "", "the name of that node; default: the host's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *folder != "" {
		return join(ctx, *folder, *name)
	}
	if *root == "" {
		var err error
		if *root, err = sourcesOfGo(ctx); err != nil {
			return err
		}
	}
	if _, err := os.ReadDir(*root); err != nil {
		return err // no job would ever get further
	}
	return runAll(ctx, *root, *nodes, out)
}

func sourcesOfGo(ctx context.Context) (string, error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of Go: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(goroot)), "src"), nil
}

// join runs a node until ctx ends.
func join(ctx context.Context, folder, name string) error {
	store, err := embedded.Dial(ctx, folder)
	if err != nil {
		return err
	}
	node, err := newNode(store, name)
	if err == nil {
		err = node.Run(ctx)
	}
	return errors.Join(err, store.Close())
}

// newNode makes a node. Only hash jobs are bounded: it is them that read the disk.
func newNode(store broker.Broker, name string) (*windlass.Node, error) {
	jobs, err := tree.New(store, "")
	if err != nil {
		return nil, err
	}
	return windlass.NewNode(windlass.Config{
		Broker: store, Name: name, Handlers: worker{jobs: jobs}.handlers(),
		Concurrency: map[string]int{typeHash: 4}, SessionTTL: 5 * time.Second,
	})
}

// runAll runs a broker, nodes and the jobs, and prints the report.
func runAll(ctx context.Context, root string, count int, out io.Writer) (err error) {
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
	for i := range count { // each with a connection of its own
		node, err := newNode(server.Broker(), fmt.Sprintf("node-%d", i+1))
		if err != nil {
			return err
		}
		nodes.Go(func() { cancel(node.Run(ctx)) })
	}
	store := server.Broker()
	jobs, err := tree.New(store, "")
	if err != nil {
		return err
	}
	client, err := windlass.NewClient(store, "")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := errors.Join(jobs.Init(ctx), start(ctx, jobs, root), await(ctx, jobs, out)); err != nil {
		return err
	}
	s, err := report(ctx, client)
	fmt.Fprintf(out, "%d folders, %d files, %d bytes, digest %x, in %v\n", s.Folders, s.Files, s.Bytes, s.Digest, time.Since(began).Round(time.Millisecond))
	return err
}

// await shows on one line how far the jobs have come, until the report is there. A
// job that has failed for good is drawn, and ends it.
func await(ctx context.Context, jobs *tree.Tree, out io.Writer) error {
	for forest, err := range jobs.Watch(ctx, 500*time.Millisecond) {
		if err != nil {
			return err
		}
		p := forest.Progress(time.Now())
		fmt.Fprintf(out, "\r%d of %d jobs, %d%%, %d running   ", p.Done, p.Total, 100*p.Done/max(p.Total, 1), p.Counts[windlass.StatusRunning])
		if job, ok := forest.Get(reportPath); ok && job.Completed() {
			fmt.Fprintln(out)
			return nil
		}
		for _, job := range forest.Jobs() {
			if job.Status == windlass.StatusFailed {
				err := fmt.Errorf("job %s has failed: %s", job.Path, job.Errors[len(job.Errors)-1].Error)
				return errors.Join(err, forest.Draw(out, tree.DrawOptions{ChildrenMax: 5}))
			}
		}
	}
	return context.Cause(ctx)
}

// report is the result of the last job.
func report(ctx context.Context, client *windlass.Client) (s summary, err error) {
	results, err := client.Results(ctx, reportPath.ID())
	if err != nil {
		return s, err
	}
	return summaryOf(results, reportPath.ID())
}
