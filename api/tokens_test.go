package api

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
)

// tokensOf makes a token file of these tokens, named like their roles.
func tokensOf(t *testing.T, tokens map[string]Role) *Tokens {
	t.Helper()
	var lines []string
	for token, role := range tokens {
		lines = append(lines, line(t, role, role.String(), token))
	}
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, lines...)
	loaded, err := LoadTokens(path, slog.New(slog.DiscardHandler))
	must(t, err)
	return loaded
}

// write replaces a file, as an editor does.
func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	must(t, os.Rename(path+".new", path))
}

func line(t *testing.T, role Role, name, token string) string {
	t.Helper()
	text, err := TokenLine(role, name, token)
	must(t, err)
	return text
}

func TestTokens_AreReadAgainWhenTheFileHasChangedAndTwoAreValidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		var log bytes.Buffer
		write(t, path, "# who may", "", line(t, RoleView, "wall", "old"))
		tokens, err := LoadTokens(path, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		want := func(token string, role Role) {
			t.Helper()
			time.Sleep(rereadEvery)
			if caller, ok := tokens.Find(token); ok != (role != 0) || caller.Role != role {
				t.Errorf("%s: %v %v", token, caller, ok)
			}
		}
		want("old", RoleView)
		want("new", 0)
		write(t, path, line(t, RoleView, "wall", "old"), line(t, RoleOperate, "wall", "new")+" # since today")
		want("old", RoleView)
		want("new", RoleOperate)
		write(t, path, line(t, RoleOperate, "wall", "new"))
		want("old", 0)
		want("new", RoleOperate)
		// A mistake locks nobody out, and is logged.
		write(t, path, "operate wall secret-that-is-no-hash")
		want("new", RoleOperate)
		if text := log.String(); !strings.Contains(text, "line 1") || strings.Contains(text, "secret-that-is-no-hash") {
			t.Errorf("the log says %s", text)
		}
	})
}

func TestTokens_AnInvalidFileIsRefusedAndNoHashIsShown(t *testing.T) {
	good := line(t, RoleView, "a", "x")
	for text, want := range map[string]string{
		"": "at least one", "# nothing": "at least one", "view a": "2 fields", "root a sha256:00": "root", "view a secret": "(not shown)",
		"view a sha256:" + strings.Repeat("0", 62): "64 hexadecimal digits", "view a sha256:" + strings.Repeat("0", 66): "64 hexadecimal digits",
		good + "\nview ä sha256:00": "line 2", strings.Repeat(good+"\n", tokensMax+1): "at most 1000",
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		write(t, path, text)
		_, err := LoadTokens(path, nil)
		if _, ok := errors.AsType[*windlass.BadInputError](err); !ok || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, good)
	must(t, os.Chmod(path, 0o622))
	if _, err := LoadTokens(path, nil); err == nil || !strings.Contains(err.Error(), "0622") {
		t.Errorf("a file that others can write: %v", err)
	}
	if _, err := LoadTokens(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestNewToken_IsLongAndNeverTheSame(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) < len(tokenPrefix)+43 || !strings.HasPrefix(a, tokenPrefix) {
		t.Errorf("%q %q", a, b)
	}
	for _, name := range []string{"", "a b", "a#b", "ä", strings.Repeat("x", tokenNameBytesMax+1)} {
		if _, err := TokenLine(RoleView, name, a); err == nil {
			t.Errorf("the name %q passes", name)
		}
	}
	if _, err := TokenLine(0, "a", a); err == nil {
		t.Error("no role passes")
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("view a sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n# b\n"))
	f.Add([]byte("operate b"))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := parseTokens(content)
		if err == nil && len(entries) == 0 {
			t.Error("no tokens and no error")
		}
		for _, e := range entries {
			if e.caller.Role < RoleView || e.caller.Role > RoleAdmin || checkTokenName(e.caller.Name) != nil {
				t.Errorf("%+v", e.caller)
			}
		}
	})
}

func TestTokens_AFileWhoseModeWasMendedIsReadAgain(t *testing.T) {
	tokens := tokensOf(t, map[string]Role{"old": RoleView})
	later := func() { tokens.checked = time.Time{} }
	write(t, tokens.path, line(t, RoleView, "a", "new"))
	must(t, os.Chmod(tokens.path, 0o664))
	later()
	if _, known := tokens.Find("new"); known {
		t.Fatal("a file that others can write is read")
	}
	must(t, os.Chmod(tokens.path, 0o600))
	later()
	if _, known := tokens.Find("old"); known {
		t.Error("a token that is no longer in the file is valid")
	}
}

func TestTokens_ErrorsShowNoTokenWhereverItStands(t *testing.T) {
	secret := NewToken()
	for _, line := range []string{secret + " deploy view", "view " + secret + "é x", `{"token":"` + secret + `"} a b`} {
		if _, err := parseTokens([]byte(line)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("the error is %v", err)
		}
	}
}
