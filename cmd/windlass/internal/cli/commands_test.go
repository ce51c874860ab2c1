package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// withTasks runs a test in virtual time on a store with these tasks and no node.
func withTasks(t *testing.T, ids []string, test func(t *testing.T, a *app, c *windlass.Client, store broker.Broker)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New().Broker()
		defer store.Close()
		c, err := windlass.NewClient(store, "/windlass")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if err := c.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		test(t, &app{out: &out, err: &errs, output: "table"}, c, store)
	})
}

// putToSleep is a command that waits for a node.
var putToSleep = commands.Command{Command: statemachine.SleepUntil(time.Date(2130, 1, 1, 0, 0, 0, 0, time.UTC))}

// conclude does what a node does with a command: it deletes it, and writes a state that
// names the command if it was carried out.
func conclude(t *testing.T, store broker.Broker, o *commands.Result, state statemachine.State, command int64) {
	t.Helper()
	value := fmt.Sprintf(`{"state":%q,"command":%d}`, state, command)
	_, err := broker.CommitOne(t.Context(), store, broker.Txn{Then: []broker.Op{
		broker.Put("/windlass/state/"+o.ID, []byte(value)), broker.Delete("/windlass/commands/" + o.ID),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAwait_CommandsThatNobodyCarriesOutDoNotHideTheOthers(t *testing.T) {
	var ids []string
	for i := range 5 * commands.AtOnceMax {
		ids = append(ids, fmt.Sprintf("t-%03d", i))
	}
	withTasks(t, ids, func(t *testing.T, a *app, c *windlass.Client, store broker.Broker) {
		sent := a.send(t.Context(), c, putToSleep, ids)
		const stuck = 3 * commands.AtOnceMax
		for _, o := range sent[stuck:] {
			conclude(t, store, o, statemachine.Paused, o.Sent.Revision)
		}
		began := time.Now()
		a.await(t.Context(), c, sent, 2*time.Second)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it waited for %v", took)
		}
		for i, o := range sent {
			if i < stuck && (o.Result != view.ResultFailed || exitCode(o.Err) != exitFailed || !strings.Contains(o.Error, "not carried out within 2s")) {
				t.Errorf("%s: %s", o.ID, resultText(o))
			}
			if i >= stuck && resultText(o) != "done: paused" {
				t.Errorf("%s: %s", o.ID, resultText(o))
			}
		}
	})
}

func TestReport_TheFirstErrorInOrderDecides(t *testing.T) {
	withTasks(t, []string{"superseded", "discarded", "gone", "fine"}, func(t *testing.T, a *app, c *windlass.Client, store broker.Broker) {
		sent := a.send(t.Context(), c, putToSleep, []string{"fine", "superseded", "discarded", "gone", "missing"})
		conclude(t, store, sent[0], statemachine.Paused, sent[0].Sent.Revision)
		a.send(t.Context(), c, putToSleep, []string{"superseded"})
		conclude(t, store, sent[2], statemachine.Completed, 0)
		if err := c.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		a.await(t.Context(), c, sent, time.Minute)
		want := map[string]error{
			"fine": nil, "superseded": windlass.ErrSuperseded, "discarded": windlass.ErrDiscarded,
			"gone": windlass.ErrNotFound, "missing": windlass.ErrNotFound,
		}
		for _, o := range sent {
			if !errors.Is(o.Err, want[o.ID]) {
				t.Errorf("%s: %s, want %v", o.ID, resultText(o), want[o.ID])
			}
		}
		for first, code := range []int{exitConflict, exitConflict, exitConflict, exitNotFound, exitNotFound} {
			if got := exitCode(a.report(t.Context(), sent[first:])); got != code {
				t.Errorf("from %s on: exit code %d, want %d", sent[first].ID, got, code)
			}
		}
		if err := a.report(t.Context(), sent[:1]); err != nil {
			t.Errorf("all is well: %v", err)
		}
	})
}

func TestReport_AfterAnInterruptAndWithoutABroker(t *testing.T) {
	withTasks(t, []string{"t"}, func(t *testing.T, a *app, c *windlass.Client, store broker.Broker) {
		ctx, cancel := context.WithCancel(t.Context())
		sent := a.send(ctx, c, putToSleep, []string{"t"})
		time.AfterFunc(time.Second, cancel)
		a.await(ctx, c, sent, time.Hour)
		if got := resultText(sent[0]); got != "sent" {
			t.Errorf("after an interrupt: %s", got)
		}
		if got := exitCode(a.report(ctx, sent)); got != exitInterrupted {
			t.Errorf("exit code %d after an interrupt", got)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		sent = a.send(t.Context(), c, putToSleep, []string{"t"})
		if err := a.report(t.Context(), sent); err == nil || sent[0].Result != view.ResultFailed {
			t.Errorf("%s, %v, on a broker that is gone", resultText(sent[0]), err)
		}
	})
}

func TestPreview_NamesAtMostTen(t *testing.T) {
	for ids, want := range map[string]string{
		"": "no task", "a": "1 task: a", "a\x1b[2J": "1 task: a·[2J", "a b": "2 tasks: a, b", "a b c d e f g h i j": "10 tasks: a, b, c, d, e, f, g, h, i, j",
		"a b c d e f g h i j k": "11 tasks: a, b, c, d, e, f, g, h, i, j and 1 more",
	} {
		if got := previewOf(strings.Fields(ids)); got != want {
			t.Errorf("%s: %q, want %q", ids, got, want)
		}
	}
}

func TestConsent_RequiresAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes ": true, "\n": false, "no\n": false, "yess\n": false, "": false} {
		var errs bytes.Buffer
		err := new(consent).ask(t.Context(), &app{in: strings.NewReader(answer), err: &errs}, "Sure?")
		if (err == nil) != want || errs.String() != "Sure? [y/N] " {
			t.Errorf("%q: %v after %q", answer, err, errs.String())
		}
	}
	asks := &app{in: strings.NewReader("y\n")}
	if err := new(consent).check(asks); exitCode(err) != exitUsage {
		t.Errorf("without a terminal: %v", err)
	}
	for _, c := range []consent{{yes: true}, {dryRun: true}} {
		if err := c.check(asks); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestReport_ItsJSONIsStable(t *testing.T) {
	withTasks(t, []string{"t"}, func(t *testing.T, a *app, c *windlass.Client, _ broker.Broker) {
		a.output = "json"
		if err := a.report(t.Context(), a.send(t.Context(), c, putToSleep, nil)); err != nil || a.out.(*bytes.Buffer).String() != "[]\n" {
			t.Errorf("of none: %v, %s", err, a.out)
		}
		a.out.(*bytes.Buffer).Reset()
		_ = a.report(t.Context(), a.send(t.Context(), c, putToSleep, []string{"t", "missing"}))
		got := strings.Join(strings.Fields(a.out.(*bytes.Buffer).String()), " ")
		want := `[ { "id": "t", "message": "sleep", "result": "sent" }, { "id": "missing", "message": "sleep", "result": "failed", "error": "command to task \"missing\": not found" } ]`
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
