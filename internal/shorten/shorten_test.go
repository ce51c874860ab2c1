package shorten

import "testing"

func TestTo_KeepsWholeCharactersAndMarksTheCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aäb", 2, "a…"}} {
		if got := To(c.text, c.most); got != c.want {
			t.Errorf("%q in %d bytes is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestLine_IsTheFirst(t *testing.T) {
	for text, want := range map[string]string{"no route\nto host": "no rou…", "none\n": "none", "\nx": ""} {
		if got := Line(text, 6); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
