package tree_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/tree"
)

// A file is requested, then downloaded, then processed: three jobs, each below the
// one that it waits for. In production the broker is the one that etcd.Open
// returns, and there are more nodes.
func ExampleTree() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	jobs, err := tree.New(store.Broker(), "")
	node, nodeErr := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Name: "node-1",
		Handlers: map[string]windlass.NewHandler{"alpha": windlass.HandlerFunc(
			func(_ context.Context, c *windlass.Claim) error {
				path, err := tree.ParsePath(c.ID())
				fmt.Println("run", path.Name())
				if err == nil && path.Name() == "processFile" {
					stop()                  // enough for an example
					return windlass.ErrDone // though the node is to stop
				}
				return err
			})},
	})
	if err := errors.Join(err, nodeErr, jobs.Init(ctx)); err != nil {
		log.Fatal(err)
	}

	queue := func(r tree.Request) {
		queued, err := jobs.Queue(ctx, r)
		if err != nil {
			log.Fatal(err)
		}
		for _, q := range queued {
			fmt.Println(q.Effect, q.Path)
		}
	}
	queue(tree.Request{Name: "requestFile", Type: "alpha"})
	queue(tree.Request{Name: "downloadFile", Type: "alpha", Parent: "requestFile_alpha"})
	queue(tree.Request{ // one under every job that matches, which is one here
		Name: "process", Type: "alpha", Under: &tree.Pattern{Name: "download.*", Type: "alpha"},
		NameOf: func(parent, child string) string { return child + strings.TrimPrefix(parent, "download") },
	})

	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
	forest, err := jobs.Load(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if err := withoutTimes(forest).Draw(os.Stdout, tree.DrawOptions{ASCII: true}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// created requestFile_alpha
	// created requestFile_alpha/downloadFile_alpha
	// created requestFile_alpha/downloadFile_alpha/processFile_alpha
	// run requestFile
	// run downloadFile
	// run processFile
	// [c] requestFile  alpha  completed
	// `- [c] downloadFile  alpha  completed
	//    `- [c] processFile  alpha  completed
}

// withoutTimes is a forest that is drawn without how long each job took, which
// no example could foretell.
func withoutTimes(f *tree.Forest) *tree.Forest {
	jobs := f.Jobs()
	for i := range jobs {
		jobs[i].ClaimedAt = nil
	}
	return tree.NewForest(jobs)
}

// Jobs that a program takes when it is ready for them, instead of having handlers
// called. The second one goes on from what the first one left as its result.
func Example_dequeue() {
	store := memory.New()
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	jobs, err := tree.New(store.Broker(), "")
	node, nodeErr := windlass.NewNode(windlass.Config{Broker: store.Broker(), Name: "node-1", Pulls: []string{"alpha"}})
	if err := errors.Join(err, nodeErr, jobs.Init(ctx)); err != nil {
		log.Fatal(err)
	}
	if _, err := jobs.Queue(ctx, tree.Request{Name: "requestFile", Type: "alpha"}); err != nil {
		log.Fatal(err)
	}
	if _, err := jobs.Queue(ctx, tree.Request{Name: "downloadFile", Type: "alpha", Parent: "requestFile_alpha"}); err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- node.Run(ctx) }()

	request, err := node.Dequeue(ctx, "alpha")
	if err != nil {
		log.Fatal(err)
	}
	err = errors.Join(request.SetResult("report.pdf"), request.Complete(ctx))
	fmt.Println("completed", request.ID(), err)

	download, err := node.Dequeue(ctx, "alpha") // it was blocked until now
	if err != nil {
		log.Fatal(err)
	}
	results, err := download.Results(ctx) // of all that it has waited for
	fmt.Println("download", string(results[request.ID()]), err)
	fmt.Println("completed", download.ID(), download.Complete(ctx))

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// completed requestFile_alpha <nil>
	// download "report.pdf" <nil>
	// completed requestFile_alpha|downloadFile_alpha <nil>
}

// Jobs below every job that matches; the guide to trees shows it.
func Example_under() {
	store := memory.New()
	defer store.Close()
	ctx := context.Background()
	jobs, err := tree.New(store.Broker(), "")
	if err := errors.Join(err, jobs.Init(ctx)); err != nil {
		log.Fatal(err)
	}
	files, err := jobs.Queue(ctx,
		tree.Request{Name: "requestFile", Type: "alpha", Data: []byte(`{"url":"https://example.org"}`)},
		tree.Request{Name: "downloadFile", Type: "alpha", Parent: "requestFile_alpha"})
	if err != nil {
		log.Fatal(err)
	}
	checks, err := jobs.Queue(ctx, tree.Request{
		Name: "check", Type: "alpha", Under: &tree.Pattern{Name: ".*File"}, // under both of them
		NameOf: func(parent, child string) string { return child + "-" + parent },
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range append(files, checks...) {
		fmt.Println(q.Effect, q.Path)
	}
	// Output:
	// created requestFile_alpha
	// created requestFile_alpha/downloadFile_alpha
	// created requestFile_alpha/check-requestFile_alpha
	// created requestFile_alpha/downloadFile_alpha/check-downloadFile_alpha
}

// push and pull are the two ways to run jobs, as the guide to trees shows them.
func push(store broker.Broker, process func(context.Context, *windlass.Claim) error) (*windlass.Node, error) {
	return windlass.NewNode(windlass.Config{
		Broker:      store,
		Handlers:    map[string]windlass.NewHandler{"alpha": windlass.HandlerFunc(process)},
		Concurrency: map[string]int{"alpha": 8},
	})
}

func pull(ctx context.Context, node *windlass.Node, work func(ctx context.Context, data []byte) error) error {
	for {
		job, err := node.Dequeue(ctx, "alpha") // waits; TryDequeue does not
		if err != nil {
			return err
		}
		if failed := work(job.Context(), job.Props()); failed != nil {
			err = job.Fail(ctx, failed) // again later, as the job's retry policy says
		} else {
			err = job.Complete(ctx)
		}
		if err != nil {
			slog.Warn("somebody else may run it", "job", job.ID(), "error", err)
		}
	}
}

var _, _ = push, pull
