package api

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/lease"
)

// idsOf returns the IDs of tasks.
func idsOf(tasks []windlass.TaskInfo) (ids []string) {
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

// submitTagged submits a1 to a3, whose tags are different, and b, which has none.
func (b *bench) submitTagged() {
	b.Helper()
	for i := 1; i <= 3; i++ {
		b.want(201, "", request("POST", "/v1/tasks", fmt.Sprintf(`{"id":"a%d","type":"t","tags":{"tenant":"t%d","note":"x=1, é&"}}`, i, i%2)))
	}
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"b","type":"t"}`))
}

func TestTags_SelectInListsAndCounts(t *testing.T) {
	b := newBench(t, nil)
	b.submitTagged()
	note := "tag=" + url.QueryEscape("note=x=1, é&")
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"tag=tenant=t1", []string{"a1", "a3"}}, {"tag=tenant", []string{"a1", "a2", "a3"}}, {"tag=tenant=", []string{"a1", "a2", "a3"}},
		{note, []string{"a1", "a2", "a3"}}, {note + "&tag=tenant=t0", []string{"a2"}}, {"tag=tenant=t", nil}, {"tag=other", nil},
		{"since=2026-01-02T15:04:05Z", []string{"a1", "a2", "a3", "b"}}, {"since=2999-01-02T15:04:05%2B01:00", nil},
		{"tag=tenant=t1&since=2999-01-02T15:04:05Z", nil}, {"tag=tenant=t1&id_prefix=a3", []string{"a3"}},
	} {
		w := b.want(200, "", request("GET", "/v1/tasks?"+c.query, ""))
		if got := idsOf(read[[]windlass.TaskInfo](b, w)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
		count := read[map[string]int](b, b.want(200, "", request("GET", "/v1/count?"+c.query, "")))
		if count["pending"] != len(c.want) {
			t.Errorf("%s: %v", c.query, count)
		}
	}
	list := read[[]windlass.TaskInfo](b, b.want(200, "", request("GET", "/v1/tasks?id_prefix=a1", "")))
	if tags := list[0].Tags; len(tags) != 2 || tags["tenant"] != "t1" || tags["note"] != "x=1, é&" {
		t.Errorf("a1 is shown with %v", tags)
	}
	if w := b.want(200, "", request("GET", "/v1/tasks?id_prefix=b", "")); strings.Contains(w.Body.String(), "tags") {
		t.Errorf("a task without tags is %s", w.Body)
	}
}

// A filter that is ignored would have more tasks than were meant.
func TestTags_ThatCannotBeAreRefused(t *testing.T) {
	b := newBench(t, nil)
	b.submitTagged()
	for _, path := range []string{"/v1/tasks", "/v1/count", "/v1/failures"} {
		for _, query := range []string{"tag=", "tag==x", "tag=a&tag=", "tag=a=1&tag=a=2", "since=", "since=2h", "since=2026-01-02", "since=0", "tags=a"} {
			b.want(422, "invalid", request("GET", path+"?"+query, ""))
		}
	}
	for _, body := range []string{
		`{"selection":{"tags":{}}}`, `{"selection":{"tags":["a"]}}`, `{"selection":{"tags":"a=1"}}`, `{"selection":{"tag":{"a":"1"}}}`, `{"selection":{"since":"2h"}}`,
	} {
		b.want(422, "invalid", request("POST", "/v1/commands/preview", body))
		b.want(422, "invalid", request("POST", "/v1/commands", `{"message":"kill",`+body[1:]))
	}
	for tags, field := range map[string]string{`{"a=b":"c"}`: "tags", `{"a":"` + strings.Repeat("x", windlass.TagValueBytesMax+1) + `"}`: "tags.a", `{"a":"\n"}`: "tags"} {
		w := b.want(422, "invalid", request("POST", "/v1/tasks", `{"id":"c","tags":`+tags+`}`))
		if p := read[Problem](b, w); p.Field != field || p.Limit == "" {
			t.Errorf("%s: %+v", tags, p)
		}
	}
}

func TestTags_PagesKeepTheWholeFilter(t *testing.T) {
	b := newBench(t, nil)
	b.submitTagged()
	got, next := []string{}, "/v1/tasks?tag=tenant&tag="+url.QueryEscape("note=x=1, é&")+"&since=2026-01-02T15:04:05.123%2B01:00&limit=1"
	for range 3 {
		w := b.want(200, "", request("GET", next, ""))
		got = append(got, idsOf(read[[]windlass.TaskInfo](b, w))...)
		next = strings.TrimSuffix(strings.TrimPrefix(w.Header().Get("Link"), "<"), `>; rel="next"`)
		if next == "" {
			break
		}
		link, err := url.Parse(next)
		must(t, err)
		if q := link.Query(); len(q["tag"]) != 2 || q.Get("since") != "2026-01-02T15:04:05.123+01:00" {
			t.Errorf("the next page is %s", next)
		}
	}
	if !slices.Equal(got, []string{"a1", "a2", "a3"}) || next != "" {
		t.Errorf("the pages have %q, and then %q", got, next)
	}
}

func TestTags_CommandsGoToTheSelectedTasksAlone(t *testing.T) {
	b := newBench(t, nil)
	b.submitTagged()
	preview := func(body string, want ...string) {
		t.Helper()
		if p := read[view.Preview](b, b.want(200, "", request("POST", "/v1/commands/preview", body))); !slices.Equal(p.IDs, want) {
			t.Errorf("%s: %q, want %q", body, p.IDs, want)
		}
	}
	preview(`{"selection":{"tags":{"tenant":"t1"}}}`, "a1", "a3")
	preview(`{"selection":{"tags":{"tenant":""},"types":["t"]}}`, "a1", "a2", "a3")
	preview(`{"selection":{"tags":{"tenant":"t1","other":""}}}`)
	preview(`{"selection":{"since":"2026-01-02T15:04:05Z"}}`, "a1", "a2", "a3", "b")
	later, err := time.Now().Add(time.Hour).MarshalText()
	must(t, err)
	preview(fmt.Sprintf(`{"selection":{"since":%q,"types":["t"]}}`, later))
	b.want(200, "", request("PATCH", "/v1/tasks/a2", `{"tags":{"tenant":"t1","note":null}}`))
	preview(`{"selection":{"tags":{"tenant":"t1"}}}`, "a1", "a2", "a3")
	preview(`{"selection":{"tags":{"note":""}}}`, "a1", "a3")
	told := read[[]view.CommandResult](b, b.want(200, "", request("POST", "/v1/commands", `{"message":"delete","selection":{"tags":{"note":""}}}`)))
	if len(told) != 2 || told[0].ID != "a1" || told[1].ID != "a3" {
		t.Errorf("it went to %+v", told)
	}
	w := b.want(200, "", request("GET", "/v1/tasks", ""))
	if got := idsOf(read[[]windlass.TaskInfo](b, w)); !slices.Equal(got, []string{"a2", "b"}) {
		t.Errorf("there are still %q", got)
	}
}

func TestTags_WhatHasEndedIsFoundRetriedAndForgotten(t *testing.T) {
	b := newBench(t, nil)
	fail := func(n int) {
		t.Helper()
		for range n {
			d, err := lease.New(b.client, nil).Dequeue(t.Context(), "t", "owner", 0)
			must(t, err)
			must(t, lease.New(b.client, nil).Fail(t.Context(), d.ID, d.Token, windlass.Permanent(errors.New("no"))))
		}
	}
	for _, id := range []string{"a1", "a2", "b1"} {
		b.submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t", Tags: map[string]string{"side": id[:1]}}})
	}
	fail(3)
	want := func(query string, want ...string) {
		t.Helper()
		w := b.want(200, "", request("GET", "/v1/tasks?"+query, ""))
		if got := idsOf(read[[]windlass.TaskInfo](b, w)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	want("status=failed&tag=side=a", "a1", "a2")
	groups := read[[]inspect.FailureGroup](b, b.want(200, "", request("GET", "/v1/failures?tag=side=a", "")))
	if len(groups) != 1 || groups[0].Tasks != 2 {
		t.Errorf("%+v", groups)
	}
	since := "since=" + time.Now().UTC().Format(time.RFC3339Nano)
	if groups := read[[]inspect.FailureGroup](b, b.want(200, "", request("GET", "/v1/failures?"+since, ""))); len(groups) != 0 {
		t.Errorf("since then %+v", groups)
	}
	told := read[[]view.CommandResult](b, b.want(200, "", request("POST", "/v1/commands", `{"message":"retry","selection":{"tags":{"side":"a"}}}`)))
	if len(told) != 2 || told[0].Error+told[1].Error != "" {
		t.Errorf("it went to %+v", told)
	}
	fail(1)
	want("status=failed&tag=side&"+since, "a1")
	want("tag=side&"+since, "a1", "a2")
	b.want(200, "", request("POST", "/v1/prune", `{"older_than":"1ns","selection":{"tags":{"side":"b"}}}`))
	want("", "a1", "a2")
}
