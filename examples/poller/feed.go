package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// item is one entry of a feed. Cursors rise from 1.
type item struct {
	Cursor int64  `json:"cursor"`
	Text   string `json:"text"`
}

// pageMax is how many items a source answers with at once.
const pageMax = 10

// feed is a source to poll, so that the example needs no other:
// GET /feeds/<customer>?after=<cursor>.
type feed struct {
	// published is how many items a customer has by now; below zero for a
	// customer that is no more.
	published func(customer string) int64
	// busy is for how long it wants to be left alone, zero for not at all.
	busy func() time.Duration
}

func (f feed) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /feeds/{customer}", func(w http.ResponseWriter, r *http.Request) {
		customer := r.PathValue("customer")
		after, err := strconv.ParseInt(r.FormValue("after"), 10, 64)
		last := f.published(customer)
		switch busy := f.busy(); {
		case last < 0:
			http.Error(w, "this customer is no more", http.StatusGone)
		case err != nil || after < 0:
			http.Error(w, "after: must be a cursor, 0 for the beginning", http.StatusBadRequest)
		case busy > 0:
			w.Header().Set("Retry-After", strconv.Itoa(int((busy+time.Second-1)/time.Second)))
			http.Error(w, "later", http.StatusTooManyRequests)
		default:
			page := []item{}
			for c := after + 1; c <= last && len(page) < pageMax; c++ {
				page = append(page, item{Cursor: c, Text: fmt.Sprintf("%s, number %d", customer, c)})
			}
			_ = json.NewEncoder(w).Encode(page) // who asked has gone away
		}
	})
	return mux
}
