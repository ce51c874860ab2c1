package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// hostile is text that does something to a terminal, or to who reads it.
const hostile = "a\x1b[31m\x7f\u0085\u009b2J\u202eevil\u2066\ufeff\U000e0041 \u00e9 \u4e16 \U0001f600 \u00a0z"

func TestEscapeJSON_SaysTheSameWithWhatIsSeenAlone(t *testing.T) {
	for _, value := range []any{hostile, map[string]string{hostile: hostile}, []string{"plain", ""}, "\xff", json.RawMessage(`{"a" : "` + "\u009b" + `"}`), json.RawMessage("\"\x9b\"")} {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		escaped := EscapeJSON(raw)
		var before, after any
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &after); err != nil {
			t.Fatalf("%s is no JSON: %v", escaped, err)
		}
		again, _ := json.Marshal(after)
		if once, _ := json.Marshal(before); !bytes.Equal(once, again) {
			t.Errorf("%s says %s, want %s", escaped, again, once)
		}
		if s := string(escaped); strings.ContainsFunc(s, func(r rune) bool { return !shows(r) }) {
			t.Errorf("%q has characters that are not seen", s)
		}
	}
	if got := string(EscapeJSON([]byte(`"` + hostile[8:] + `"`))); !strings.Contains(got, "\u4e16 \U0001f600") || !strings.Contains(got, `\udb40\udc41`) {
		t.Errorf("%s", got)
	}
}

func TestEscapeText_KeepsLinesAndShowsTheRest(t *testing.T) {
	want := `a\x1b[31m\x7f\u0085\u009b2J\u202eevil\u2066\ufeff\U000e0041 ` + "\u00e9 \u4e16 \U0001f600 \u00a0z"
	if got := EscapeText(hostile); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := EscapeText("a\tb\r\n\xff\xe4\xb8"), "a\tb\\x0d\n\\xff\\xe4\\xb8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEscaper_DoesNotCareWhereTextIsCut(t *testing.T) {
	text := hostile + "\xe4\xb8"
	for cut := range len(text) {
		var b bytes.Buffer
		e := Escaper(&b)
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := e.Close(); err != nil || b.String() != EscapeText(text) {
			t.Fatalf("cut at %d: %q, %v", cut, b.String(), err)
		}
	}
}

func FuzzEscapeJSON(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		escaped := EscapeJSON(raw)
		if err := json.Unmarshal(escaped, &after); err != nil || before != after {
			t.Fatalf("%s says %q, want %q: %v", escaped, after, before, err)
		}
		if strings.ContainsFunc(string(escaped), func(r rune) bool { return !shows(r) }) {
			t.Fatalf("%q has characters that are not seen", escaped)
		}
	})
}
