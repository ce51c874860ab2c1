package windlass

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

func TestFilter_SelectsByTagsThatAllMatch(t *testing.T) {
	task := TaskInfo{ID: "a", Tags: map[string]string{"tenant": "t7", "team": "", "note": "a=b, c"}}
	for _, c := range []struct {
		want bool
		tags map[string]string
	}{
		{true, nil}, {true, map[string]string{"tenant": "t7"}}, {true, map[string]string{"tenant": "t7", "note": "a=b, c"}},
		{true, map[string]string{"tenant": ""}}, {true, map[string]string{"team": ""}}, {false, map[string]string{"team": "x"}},
		{false, map[string]string{"tenant": "t"}}, {false, map[string]string{"tenant": "t7", "team": "x"}},
		{false, map[string]string{"other": ""}}, {false, map[string]string{"Tenant": "t7"}},
	} {
		if got := (Filter{Tags: c.tags}).Matches(task); got != c.want {
			t.Errorf("%v: %v", c.tags, got)
		}
	}
	if (Filter{Tags: map[string]string{"tenant": ""}}).Matches(TaskInfo{ID: "b"}) {
		t.Error("a task without tags has one")
	}
}

func TestFilter_SelectsByTheLatestTimeThatIsKnown(t *testing.T) {
	at := func(n int) *time.Time {
		moment := time.Date(2026, 1, 2, 0, n, 0, 0, time.UTC)
		return &moment
	}
	fault := []statemachine.ErrorEntry{{Timestamp: *at(1)}, {Timestamp: *at(4)}}
	for want, task := range map[int]TaskInfo{
		1: {SubmittedAt: at(1)}, 2: {SubmittedAt: at(1), ClaimedAt: at(2)}, 3: {SubmittedAt: at(3), ClaimedAt: at(2)},
		4: {SubmittedAt: at(1), ClaimedAt: at(2), Errors: fault}, 5: {SubmittedAt: at(1), Errors: fault, FinishedAt: at(5)},
		6: {SubmittedAt: at(1), ClaimedAt: at(6), Errors: fault, Until: at(9), NotBefore: *at(8)},
	} {
		if task.ID = "a"; !task.ChangedAt().Equal(*at(want)) {
			t.Errorf("%+v: %v, want %v", task, task.ChangedAt(), at(want))
		}
		if f := (Filter{Since: *at(want)}); !f.Matches(task) {
			t.Errorf("%+v is not selected since %v", task, f.Since)
		}
		if f := (Filter{Since: at(want).Add(1)}); f.Matches(task) {
			t.Errorf("%+v is selected since %v", task, f.Since)
		}
	}
	if never := (TaskInfo{ID: "a"}); !never.ChangedAt().IsZero() || (Filter{Since: *at(1)}).Matches(never) || !(Filter{}).Matches(never) {
		t.Error("a task of no time")
	}
}

func TestSubmission_TagsHaveLimits(t *testing.T) {
	many := map[string]string{}
	for i := range TagsMax {
		many[fmt.Sprint(i)] = strings.Repeat("ü", TagValueBytesMax/2)
	}
	more := maps.Clone(many)
	more["more"] = ""
	for _, c := range []struct {
		tags  map[string]string
		field string // of the error, empty for none
	}{
		{nil, ""}, {many, ""}, {map[string]string{"a b/c:d": "x=y, z"}, ""}, {map[string]string{strings.Repeat("k", TagKeyBytesMax): ""}, ""},
		{more, "tags"}, {map[string]string{"": "x"}, "tags"}, {map[string]string{"a=b": "x"}, "tags"},
		{map[string]string{strings.Repeat("k", TagKeyBytesMax+1): ""}, "tags"}, {map[string]string{"k": strings.Repeat("v", TagValueBytesMax+1)}, "tags.k"},
		{map[string]string{"k": "a\nb"}, "tags"}, {map[string]string{"k": "\xff"}, "tags"}, {map[string]string{"k\x1b": ""}, "tags"},
	} {
		err := Submission{ID: "a", Spec: Spec{Tags: c.tags}}.Validate()
		input, bad := errors.AsType[*BadInputError](err)
		if bad != (c.field != "") || bad && (input.Field != c.field || input.Limit == "") {
			t.Errorf("%q: %v, want one about %q", c.tags, err, c.field)
		}
	}
	with := Submission{ID: "a", Spec: Spec{Tags: map[string]string{"k": "1"}}}
	other := Submission{ID: "a", Spec: Spec{Tags: map[string]string{"k": "2"}}}
	if with.digest() == other.digest() || with.digest() == (Submission{ID: "a"}).digest() {
		t.Error("submissions that differ in their tags have one digest")
	}
	if (Submission{Spec: Spec{Tags: map[string]string{}}}).digest() != (Submission{}).digest() {
		t.Error("no tags and an empty set of them differ")
	}
}
