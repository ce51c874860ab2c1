package windlass_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// TestTask_M06_WhatANewerVersionWroteIsKept is what happens in a rolling upgrade: a
// newer node has written fields and keys that this version does not know, and this
// version takes the tasks through everything that it writes.
func TestTask_M06_WhatANewerVersionWroteIsKept(t *testing.T) {
	const until = `"2000-01-01T00:00:20Z"` // virtual time begins at midnight
	ids := []string{"sleeps", "fails", "detached"}
	inEach(t, func(t *testing.T, c *cluster) {
		write := func(key, value string) {
			if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put("/test/"+key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
		}
		read := func(key string) string {
			if kv, err := c.store.Get(t.Context(), "/test/"+key); err == nil {
				return string(kv.Value)
			}
			return ""
		}
		for _, id := range ids {
			state := `"state":"runnable"`
			if id == "sleeps" {
				state = `"state":"sleeping","until":` + until
			}
			write("state/"+id, `{`+state+`,"newer":{"of":"`+id+`"},"errors":[{"timestamp":`+until+`,"error":"e","newer":1}]}`)
			write("history/"+id, `{"claims":1,"interruptions":0,"newer":{"of":"`+id+`"},
				"entries":[{"at":`+until+`,"event":"claimed","node":"new","token":1,"newer":1}]}`)
			write("tasks/"+id+"/newer", "kept")
			write("tasks/"+id, `{"type":"`+id+`"}`)
		}
		write("tasks/waits", `{"needs":["fails"]}`) // for which a mark of the failure stays
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers = map[string]windlass.NewHandler{
				"sleeps": windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil }),
				"fails":  windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return windlass.Permanent(errors.New("no")) }),
			}
		})
		d := c.detach("detached", "detached")
		if err := c.client.CompleteDetached(t.Context(), d.ID, d.Token, nil); err != nil {
			t.Fatal(err)
		}
		for i, ended := range []string{"completed", "failed", "completed"} {
			id := ids[i]
			c.eventually(time.Minute, id+" has "+ended, func() bool {
				return strings.Contains(read("state/"+id), `"state":"`+ended+`"`) && strings.Contains(read("history/"+id), `"event":"`+ended+`"`)
			})
			for _, key := range []string{"state/", "history/"} {
				value := read(key + id)
				for _, kept := range []string{`"newer":{"of":"` + id + `"}`, `"newer":1`} {
					if !strings.Contains(value, kept) {
						t.Errorf("%s%s has lost %s: %s", key, id, kept, value)
					}
				}
			}
			if read("tasks/"+id+"/newer") != "kept" {
				t.Errorf("the key below %s is gone", id)
			}
			if read("tasks/"+id) != "" || read("tasks/"+id+"/owner") != "" {
				t.Errorf("%s is not gone", id)
			}
		}
	})
}
