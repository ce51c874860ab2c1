package exectask

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProps(t *testing.T) {
	for raw, want := range map[string]Props{
		` {"command":["/bin/ls","-l"],"env":{"A":"b"},"dir":"/tmp","restart":"on-failure"} `: {
			Command: []string{"/bin/ls", "-l"}, Env: map[string]string{"A": "b"}, Dir: "/tmp", Restart: RestartOnFailure,
		},
		`{"command":["true"],"env":null}`: {Command: []string{"true"}, Restart: RestartNever},
	} {
		got, err := ParseProps([]byte(raw))
		must(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func TestParsePropsNamesWhatItRefuses(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	var env strings.Builder
	for i := range EnvMax + 1 {
		fmt.Fprintf(&env, `,"V%d":""`, i)
	}
	for raw, want := range map[string]string{
		``:                                          "props is \"\": must be a JSON object",
		`[]`:                                        "props is \"[]\": must be a JSON object",
		`null`:                                      "must be a JSON object",
		`{"command":["a"]`:                          "props is cut short",
		`{"command":["a"]} {}`:                      "props is longer than one object",
		`{"command":["a"],"shell":true}`:            "shell is an unknown field: known are command, env, dir, restart",
		`{"Command":["a"]}`:                         "Command is an unknown field",
		`{"command":["a"],"command":["b"]}`:         "command is given twice",
		`{}`:                                        "command is empty",
		`{"command":[]}`:                            "command is empty",
		`{"command":[""]}`:                          `command[0] is "": must name a program`,
		`{"command":["a",null]}`:                    "command[1] is null",
		`{"command":"ls -l"}`:                       `command is "\"ls -l\"": must be a list of strings`,
		`{"command":["a","b\u0000c"]}`:              `command[1] is "b\x00c": must not contain a NUL byte`,
		`{"command":["a"],"env":{"A B":""}}`:        `env is "A B": a name is`,
		`{"command":["a"],"env":{"1A":""}}`:         `env is "1A"`,
		`{"command":["a"],"env":{"":""}}`:           `env is ""`,
		`{"command":["a"],"env":{"A":1}}`:           `env[A] is "1": must be a string`,
		`{"command":["a"],"env":{"A":null}}`:        `env[A] is "null": must be a string`,
		`{"command":["a"],"env":[]}`:                `env is "[]": must be a JSON object`,
		`{"command":["a"],"env":{"A":"\u0000"}}`:    `env[A] is "\x00"`,
		`{"command":["a"],"env":{"A":"1","A":"2"}}`: "A is given twice",
		`{"command":["a"],"env":{"WINDLASS_TOKEN":"1"}}`:                           "WINDLASS_* is set by Windlass only",
		`{"command":["a"],"dir":"tmp"}`:                                            `dir is "tmp": must be absolute or empty`,
		`{"command":["a"],"dir":7}`:                                                `dir is "7": must be a string`,
		`{"command":["a"],"dir":"/a\u0000"}`:                                       "must not contain a NUL byte",
		`{"command":["a"],"restart":"sometimes"}`:                                  `restart is "sometimes": must be "never", "on-failure" or "always"`,
		`{"command":["a"],"restart":1}`:                                            `restart is "1": must be a string`,
		"{\"command\":[\"\xff\"]}":                                                 "props is not UTF-8",
		`{"command":[` + many(ArgsMax+1, `"a"`) + `]}`:                             "command is 1025 elements long: at most 1024",
		`{"command":["` + strings.Repeat("a", ArgMax+1) + `"]}`:                    fmt.Sprintf("(131072 bytes): at most %d bytes", ArgMax),
		`{"command":[` + many(3, `"`+strings.Repeat("a", 100<<10)+`"`) + `]}`:      "command is 307203 bytes long",
		`{"command":["a"],"env":{"A":"` + strings.Repeat("a", EnvBytesMax) + `"}}`: "env is 131075 bytes long",
		`{"command":["a"],"env":{"A":""` + env.String() + `}}`:                     "env is 258 variables: at most 256",
		`{"command":["a"],"dir":"/` + strings.Repeat("a", DirMax) + `"}`:           "(4096 bytes): at most 4095 bytes",
		`{"command":["` + strings.Repeat("a", PropsMax) + `"]}`:                    "props is 524304 bytes long: at most 524288 bytes",
	} {
		_, err := ParseProps([]byte(raw))
		contains(t, err, want)
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("%v is no *InputError", err)
		}
		if len(err.Error()) > 512 {
			t.Errorf("the error for %.40s… is %d bytes long", raw, len(err.Error()))
		}
	}
}

func FuzzParseProps(f *testing.F) {
	f.Add([]byte(`{"command":["true"],"env":{"A":"b"},"dir":"/","restart":"always"}`))
	f.Add([]byte(`{"command":["a"],"command":["b"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseProps(raw)
		if err != nil {
			if _, ok := errors.AsType[*InputError](err); !ok {
				t.Fatalf("%v is no *InputError", err)
			}
			return
		}
		c := Command{Task: "t", Token: "1", Path: "/bin/true", Argv: p.Command, Env: p.Env, Dir: p.Dir}
		if err := c.validate(); err != nil {
			t.Fatalf("props are fine, the command is not: %v", err)
		}
		for _, e := range c.environment("n", "r", nil) {
			if strings.ContainsRune(e, 0) {
				t.Fatalf("NUL in %q", e)
			}
		}
	})
}
