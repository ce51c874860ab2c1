package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker/memory"
)

// The API in a server of yours, with your own way to tell who calls.
func Example() {
	store := memory.New()
	defer store.Close()
	server, err := api.New(api.Config{
		Broker: store.Broker(), Namespace: "/shop", Prefix: "/fleet", Hosts: []string{"ops.example.com"},
		Authenticate: func(r *http.Request) (api.Caller, bool) {
			user, password, ok := r.BasicAuth() // your sessions, more likely
			return api.Caller{Name: user, Role: api.RoleOperate}, ok && password == "sesame"
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/fleet/", server)

	// Run follows the broker for /fleet/v1/events, until ctx ends.
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	defer running.Wait()
	defer stop()

	for _, password := range []string{"sesame", "guess"} {
		r := httptest.NewRequest("POST", "http://ops.example.com/fleet/v1/tasks", strings.NewReader(`{"id":"report-7","type":"report"}`))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("ann", password)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	}
	// Output:
	// 201 application/json
	// 401 application/problem+json
}
