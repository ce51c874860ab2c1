package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

func nightly() windlass.Submission {
	return windlass.Submission{
		ID: "nightly", Props: json.RawMessage(`{ "customer": 7, "of": {"a": 1, "b": [1, 2]}, "html": "<a> & \u2028" }`),
		Spec: windlass.Spec{Type: "report", Priority: 2, Needs: []string{"x"}, Retry: &windlass.Retry{Errors: 3}, Turn: 9, Digest: "d", SubmittedAt: time.Unix(1, 0), RestartedAt: time.Unix(2, 0), Trace: "t"},
	}
}

func TestPatch_WhatItDoesNotNameStaysAsItWasWritten(t *testing.T) {
	s := windlass.Submission{ID: "a", Props: json.RawMessage(`{"z":"\u003c","n":1.50,"a":{"k":"é"}}`)}
	if err := Patch(&s, map[string]json.RawMessage{"props": json.RawMessage(`{"b":2}`)}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.Props), `{"z":"\u003c","n":1.50,"a":{"k":"é"},"b":2}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPatch_O05_ChangesWhatItNamesAndSaysWhat(t *testing.T) {
	for patch, want := range map[string]string{
		`{}`:                                    "",
		`{"priority":2}`:                        "",
		`{"priority":5}`:                        "priority: 2 → 5",
		`{"props":{"customer":8}}`:              "props.customer: 7 → 8",
		`{"props":{"of":{"a":null,"c":"new"}}}`: `props.of.a: 1 → none; props.of.c: none → "new"`,
		`{"props":{"of":{"b":["<"]}}}`:          `props.of.b: [1,2] → ["<"]`,
		`{"props":{"of":{"b":[2]}}}`:            "props.of.b: [1,2] → [2]",
		`{"props":null}`:                        `props: {"customer":7,"of":{"a":1,"b":[1,2]},"html":"<a> & \u2028"} → none`,
		`{"props":[1]}`:                         `props: {"customer":7,"of":{"a":1,"b":[1,2]},"html":"<a> & \u2028"} → [1]`,
		`{"needs":null,"type":"other"}`:         `needs: ["x"] → none; type: "report" → "other"`,
		`{"needs":[` + strings.Repeat(`"n",`, 30) + `"m"]}`: `needs: ["x"] → ["n","n","n" and 28 more]`,
		`{"type":null}`: `type: "report" → none`,
		`{"retry":{"min":"2s"},"timeout":"1m0s"}`: `retry.min: none → "2s"; timeout: none → "1m0s"`,
		`{"require":{"zone":"east"}}`:             `require: none → {"zone":"east"}`,
	} {
		s := nightly()
		s.Spec.Job = true
		if err := Patch(&s, decoded(t, patch)); err != nil {
			t.Errorf("%s: %v", patch, err)
			continue
		}
		var lines []string
		for _, c := range ChangesOf(nightly(), s) {
			lines = append(lines, c.String())
		}
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("%s: %s, want %s", patch, got, want)
		}
		if was := nightly().Spec; s.ID != "nightly" || !s.Spec.Job || s.Spec.Turn != was.Turn || !s.Spec.SubmittedAt.Equal(was.SubmittedAt) || !s.Spec.RestartedAt.Equal(was.RestartedAt) || s.Spec.Trace != was.Trace {
			t.Errorf("%s changes more than it names: %+v", patch, s)
		}
	}
}

// Each setting can be removed, and what is left is what was never set.
func TestPatch_RemovesEverySetting(t *testing.T) {
	full := Submission{Type: "t", Props: json.RawMessage(`{"a":1}`), Spec: Spec{Priority: 3, Tags: map[string]string{"a": "1"}, Timeout: windlass.Duration(time.Hour), Retry: &windlass.Retry{Errors: 3}}}.Task()
	patch := map[string]json.RawMessage{}
	for _, name := range Settings() {
		patch[name] = json.RawMessage("null")
	}
	if err := Patch(&full, patch); err != nil {
		t.Fatal(err)
	}
	if left := ChangesOf(windlass.Submission{}, full); len(left) > 0 || len(patch) < 14 {
		t.Errorf("of %d settings these are left: %v", len(patch), left)
	}
}

func TestPatch_RefusesWhatIsNoSetting(t *testing.T) {
	for patch, want := range map[string]string{
		`{"prio":1}`:                          "prio",
		`{"id":"other"}`:                      "neither the ID",
		`{"rerun":true}`:                      "neither the ID",
		`{"job":true}`:                        "job",
		`{"priority":"high"}`:                 "priority",
		`{"retry":{"often":1}}`:               "often",
		`{"timeout":"soon"}`:                  "soon",
		`{"priority":5,"Priority":6}`:         "riority",
		`{"props":{"a":{"b":1,"b":2}}}`:       `the field "props.a.b" is there twice`,
		`{"require":{"zone":"a","zone":"b"}}`: `the field "require.zone" is there twice`,
		`{"retry":{"min":"1s","Min":"2s"}}`:   "retry.",
		`{"Props":null}`:                      `the field "Props" is not known; it is written "props"`,
		`{"bogus":null}`:                      `the field "bogus" is not known`,
		`{"retry":{"bogus":null}}`:            `the field "retry.bogus" is not known`,
	} {
		s := nightly()
		err := Patch(&s, decoded(t, patch))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %s", patch, err, want)
		}
		if changes := ChangesOf(nightly(), s); len(changes) > 0 {
			t.Errorf("%s: is refused and has changed it: %v", patch, changes)
		}
	}
}

func decoded(t *testing.T, patch string) (p map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		t.Fatal(err)
	}
	return p
}
