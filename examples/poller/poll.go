package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// taskType is the type of the tasks; the ID of each is its customer.
const taskType = "poll"

// props are what a task is submitted with: what to poll, and how often.
type props struct {
	URL   string            `json:"url"`
	Every windlass.Duration `json:"every"`
}

// progress is what a task remembers: every item up to the cursor is in the
// output. Whoever runs the task next goes on from there.
type progress struct {
	Cursor   int64     `json:"cursor"`
	PolledAt time.Time `json:"polled_at"`
}

// poller runs the tasks of a node. Its tasks have no timeout: a run is meant to
// go on, and what could hang is a request, which http.Client.Timeout bounds.
type poller struct {
	client *http.Client
	out    output
}

// run polls for one customer until it is told otherwise. What it returns becomes
// of the task: Sleep, Pause and so on are stored, Release lets another node go on.
func (p *poller) run(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
	var what props
	if err := json.Unmarshal(claim.Props(), &what); err != nil || what.Every <= 0 {
		return statemachine.Fail(fmt.Sprintf("%sprops %.100q: need a url, and a positive duration as every", giveUp, claim.Props()))
	}
	at, err := saved(ctx, claim)
	if err != nil {
		return failed(ctx, err)
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done(): // the node stops, or has lost the task: another one goes on
			return statemachine.Command{Message: statemachine.Release}
		case m := <-messages:
			switch m.Message {
			case statemachine.Run: // while it runs: poll now
				next.Reset(0)
			case statemachine.Checkpoint:
				if err := claim.Checkpoint(ctx, at); err != nil {
					return failed(ctx, err)
				}
			default: // pause, sleep, release, kill: the cursor is saved already
				return m
			}
		case <-next.C:
			page, busy, err := p.fetch(ctx, what.URL, at.Cursor)
			switch {
			case err != nil:
				return failed(ctx, err)
			case busy > 0: // asleep, it costs no goroutine and stays asleep if the node dies
				return statemachine.SleepUntil(time.Now().Add(busy))
			}
			if at, err = p.keep(ctx, claim, at, page); err != nil {
				return failed(ctx, err)
			}
			wait := time.Duration(what.Every)
			if len(page) == pageMax {
				wait = 0 // there is more
			}
			next.Reset(wait)
		}
	}
}

// keep writes a page to the output and then, and only then, remembers that. A
// node that dies between the two has the page written again by the next, which
// the output takes care of; the other way round, the page would be missing.
func (p *poller) keep(ctx context.Context, claim *windlass.Claim, at progress, page []item) (progress, error) {
	at.PolledAt = time.Now().UTC()
	if len(page) == 0 {
		return at, nil // not worth a write to the broker, unless one is told to checkpoint
	}
	if err := p.out.write(claim.ID(), claim.Token(), page); err != nil {
		return at, err
	}
	at.Cursor = page[len(page)-1].Cursor
	return at, claim.Checkpoint(ctx, at)
}

// saved is the progress that the last run left, on whatever node.
func saved(ctx context.Context, claim *windlass.Claim) (at progress, err error) {
	value, err := claim.Progress(ctx)
	if err == nil && value != nil {
		err = json.Unmarshal(value, &at)
	}
	return at, err
}

// failed is what to return for an error. One that comes of being stopped is not
// the task's fault and is not to be counted.
func failed(ctx context.Context, err error) statemachine.Command {
	if ctx.Err() != nil {
		return statemachine.Command{Message: statemachine.Release}
	}
	return statemachine.Fail(err.Error())
}

// giveUp begins errors that no retry would cure. An error handler is told the
// text of an error, as it is stored.
const giveUp = "give up: "

// Bounds of what a source may ask for and answer.
const (
	busyDefault = 30 * time.Second
	busyMax     = time.Hour
	pageBytes   = 1 << 20
)

// fetch asks for the items after a cursor; busy is for how long the source wants
// to be left alone instead.
func (p *poller) fetch(ctx context.Context, url string, after int64) (page []item, busy time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?after=%d", url, after), nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%s%w", giveUp, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(io.LimitReader(response.Body, pageBytes)).Decode(&page)
		return page, 0, err
	case http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds <= 0 {
			return nil, busyDefault, nil
		}
		return nil, min(time.Duration(seconds)*time.Second, busyMax), nil
	case http.StatusNotFound, http.StatusGone:
		return nil, 0, fmt.Errorf("%s%s: %s", giveUp, url, response.Status)
	}
	return nil, 0, fmt.Errorf("%s: %s", url, response.Status)
}

// Bounds of the sleep after an error.
const (
	backOffMin = time.Second
	backOffMax = 5 * time.Minute
)

// decide is the error handler: a customer's feed may be down for a weekend, and is not to
// be asked more often than its owner likes. Only what cannot get better fails.
func decide(f windlass.Fault) statemachine.Command {
	if last := f.Errors[len(f.Errors)-1].Error; strings.HasPrefix(last, giveUp) {
		return statemachine.Fail(last)
	}
	pause := min(backOffMin<<min(f.Failures-1, 20), backOffMax)
	return statemachine.SleepUntil(f.Now.Add(pause/2 + rand.N(pause/2))) // not all at the same time
}
