package inspect_test

import (
	"context"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/inspect"
)

func ExampleInspector_Explain() {
	ctx, store := context.Background(), memory.New()
	defer store.Close()
	client, err := windlass.NewClient(store.Broker(), "/fleet")
	if err != nil {
		panic(err)
	}
	for _, s := range []windlass.Submission{{ID: "import"}, {ID: "report", Spec: windlass.Spec{Needs: []string{"import"}}}} {
		if err := client.Submit(ctx, s); err != nil {
			panic(err)
		}
	}
	for _, id := range []string{"import", "report"} {
		e, err := inspect.New(client).Explain(ctx, id)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s is %s: %s\n", id, e.Status, e.Why)
	}
	// Output:
	// import is pending: there is no node
	// report is blocked: it waits for import
}

func ExampleInspector_PlanSubmit() {
	ctx, store := context.Background(), memory.New()
	defer store.Close()
	client, err := windlass.NewClient(store.Broker(), "/fleet")
	if err != nil {
		panic(err)
	}
	plan, refused, err := inspect.New(client).PlanSubmit(ctx, []windlass.Submission{
		{ID: "report", Spec: windlass.Spec{Needs: []string{"import"}}}, {ID: "import"}, {ID: "a/b"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("refused:", refused[2])
	for _, w := range plan.Waiting {
		fmt.Printf("%d would wait, first %s: %s\n", w.Tasks, w.First, w.Why)
	}
	// Output:
	// refused: task ID "a/b": must not contain '/'; allowed are printable characters up to U+FFEF, without the slash
	// 1 would wait, first import: there is no node
	// 1 would wait, first report: it waits for import
}
