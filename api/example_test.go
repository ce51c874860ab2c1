package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker"
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

// inYourServer is what the guide to the API shows.
func inYourServer(ctx context.Context, store broker.Broker, mux *http.ServeMux, session func(*http.Request) (user string, ok bool)) error {
	server, err := api.New(api.Config{
		Broker: store, Namespace: "/shop", Prefix: "/fleet",
		Authenticate: func(r *http.Request) (api.Caller, bool) { // or Tokens
			user, ok := session(r)
			return api.Caller{Name: user, Role: api.RoleOperate}, ok
		},
		Hosts:     []string{"ops.example.com"},
		Dashboard: true, // the pages, at /fleet/
	})
	if err != nil {
		return err
	}
	mux.Handle("/fleet/", server)
	return server.Run(ctx) // follows the broker for /fleet/v1/events, until ctx ends
}

var _ = inYourServer
