package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// hostile is text that controls a terminal, or deceives its reader.
const hostile = "a\x1b[31m\x7f\u0085\u009b2J\u202eevil\u2066\ufeff\U000e0041 \u00e9 \u4e16 \U0001f600 \u00a0z"

// mustEscape checks that the escaped JSON of a value means the same, in visible characters.
func mustEscape(t *testing.T, value any) {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var before, after any
	escaped := EscapeJSON(raw)
	if err := errors.Join(json.Unmarshal(raw, &before), json.Unmarshal(escaped, &after)); err != nil || !reflect.DeepEqual(before, after) {
		t.Fatalf("%s says %q, want %q: %v", escaped, after, before, err)
	}
	if strings.ContainsFunc(string(escaped), func(r rune) bool { return !shows(r) }) {
		t.Fatalf("%q has invisible characters", escaped)
	}
}

func TestEscapeJSON_SaysTheSameInVisibleCharacters(t *testing.T) {
	for _, value := range []any{hostile, map[string]string{hostile: hostile}, []string{"plain", ""}, "\xff", json.RawMessage(`{"a" : "` + "\u009b" + `"}`), json.RawMessage("\"\x9b\"")} {
		mustEscape(t, value)
	}
	if got := string(EscapeJSON([]byte(`"` + hostile[8:] + `"`))); !strings.Contains(got, "\u4e16 \U0001f600") || !strings.Contains(got, `\udb40\udc41`) {
		t.Errorf("%s", got)
	}
}

func TestEscapeText_KeepsOnlyLinesAndVisibleCharacters(t *testing.T) {
	want := `a\x1b[31m\x7f\u0085\u009b2J\u202eevil\u2066\ufeff\U000e0041 ` + "\u00e9 \u4e16 \U0001f600 \u00a0z"
	if got := EscapeText(hostile); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := EscapeText("a\tb\r\n\xff\xe4\xb8"), "a\tb\\x0d\n\\xff\\xe4\\xb8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEscaper_AcceptsTextCutAnywhere(t *testing.T) {
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
	f.Fuzz(func(t *testing.T, text string) { mustEscape(t, text) })
}

func TestJSON_IsWhatItsAuthorWrote(t *testing.T) {
	for _, text := range []string{`sh -c 'echo a > b && cat <c'`, `\u003e`, `\\u0026 &`, "a\\", `"<`} {
		stored, err := json.Marshal(map[string]string{"x": text})
		if err != nil {
			t.Fatal(err)
		}
		var again map[string]string
		if shown := JSON(stored); json.Unmarshal([]byte(shown), &again) != nil || again["x"] != text || strings.ContainsAny(text, "<>&") && !strings.ContainsAny(shown, "<>&") {
			t.Errorf("%q is shown as %s", text, shown)
		}
	}
}
