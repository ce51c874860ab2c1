package exectask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Restart says what happens when a command ends by itself.
type Restart string

// The restart policies. RestartNever is the default.
const (
	RestartNever     Restart = "never"
	RestartOnFailure Restart = "on-failure"
	RestartAlways    Restart = "always"
)

// Props are the properties of an exec task.
type Props struct {
	// Command is the program and its arguments; there is no shell.
	Command []string `json:"command"`
	// Env is added to the small environment that every child gets.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working folder, absolute; empty means the node's own.
	Dir string `json:"dir,omitempty"`
	// Restart is never the zero value after ParseProps.
	Restart Restart `json:"restart,omitempty"`
}

// reservedPrefix begins the names that only Windlass may set: those by which a child knows
// its task, and those of the node's broker credentials.
const reservedPrefix = "WINDLASS_"

// ParseProps reads an exec task's props. It is strict, since a command whose field is
// ignored does something else: an unknown or repeated field, a null inside a list, bytes
// after the object or text that is not UTF-8 is an *InputError.
func ParseProps(raw []byte) (Props, error) {
	if len(raw) > PropsMax {
		return Props{}, refuse("props", fmt.Sprintf("%d bytes long", len(raw)), fmt.Sprintf("at most %d bytes", PropsMax))
	}
	if !utf8.Valid(raw) {
		return Props{}, refuse("props", "not UTF-8", "must be a JSON object in UTF-8")
	}
	p := Props{Restart: RestartNever}
	err := eachField(raw, "props", p.set)
	if err == nil {
		err = p.validate()
	}
	if err != nil {
		return Props{}, err
	}
	return p, nil
}

// set decodes one field. A null leaves the default: Go programs write it for an empty list
// or map.
func (p *Props) set(name string, value json.RawMessage) error {
	switch name {
	case "command":
		var words []*string
		if json.Unmarshal(value, &words) != nil {
			return refuse(name, quote(string(value)), "must be a list of strings")
		}
		for i, w := range words {
			if w == nil {
				return refuse(fmt.Sprintf("command[%d]", i), "null", "must be a string")
			}
			p.Command = append(p.Command, *w)
		}
	case "env":
		if string(value) == "null" {
			return nil
		}
		p.Env = map[string]string{}
		return eachField(value, name, func(key string, v json.RawMessage) error {
			var s *string
			if json.Unmarshal(v, &s) != nil || s == nil {
				return refuse("env["+key+"]", quote(string(v)), "must be a string")
			}
			p.Env[key] = *s
			return nil
		})
	case "dir":
		if json.Unmarshal(value, &p.Dir) != nil {
			return refuse(name, quote(string(value)), "must be a string")
		}
	case "restart":
		if json.Unmarshal(value, &p.Restart) != nil {
			return refuse(name, quote(string(value)), "must be a string")
		}
	default:
		return refuse(name, "an unknown field", "known are command, env, dir, restart")
	}
	return nil
}

// eachField calls visit for each field of a JSON object, in order. It refuses a repeated
// name, because readers disagree about which of its values counts.
func eachField(raw []byte, field string, visit func(string, json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return refuse(field, quote(string(raw)), "must be a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return refuse(field, "not valid JSON", "must be a JSON object")
		}
		if seen[name] {
			return refuse(name, "given twice", "a field may be given once")
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return refuse(name, "not valid JSON", err.Error())
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return refuse(field, "cut short", "must be a whole JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse(field, "longer than one object", "must be one JSON object")
	}
	return nil
}

func (p Props) validate() error {
	if err := validateArgv("command", p.Command); err != nil {
		return err
	}
	if err := validateEnv(p.Env); err != nil {
		return err
	}
	if err := validateDir(p.Dir); err != nil {
		return err
	}
	switch p.Restart {
	case RestartNever, RestartOnFailure, RestartAlways:
		return nil
	}
	return refuse("restart", quote(string(p.Restart)), `must be "never", "on-failure" or "always"`)
}

func validateArgv(field string, argv []string) error {
	if len(argv) == 0 {
		return refuse(field, "empty", "must hold at least the program")
	}
	if len(argv) > ArgsMax {
		return refuse(field, fmt.Sprintf("%d elements long", len(argv)), fmt.Sprintf("at most %d", ArgsMax))
	}
	if argv[0] == "" {
		return refuse(field+"[0]", quote(argv[0]), "must name a program")
	}
	total := 0
	for i, a := range argv {
		name := fmt.Sprintf("%s[%d]", field, i)
		if strings.ContainsRune(a, 0) {
			return refuse(name, quote(a), "must not contain a NUL byte")
		}
		if len(a) > ArgMax {
			return refuse(name, quote(a), fmt.Sprintf("at most %d bytes", ArgMax))
		}
		total += len(a) + 1
	}
	if total > CommandMax {
		return refuse(field, fmt.Sprintf("%d bytes long", total), fmt.Sprintf("at most %d bytes with a NUL after each", CommandMax))
	}
	return nil
}

func validateEnv(env map[string]string) error {
	if len(env) > EnvMax {
		return refuse("env", fmt.Sprintf("%d variables", len(env)), fmt.Sprintf("at most %d", EnvMax))
	}
	total := 0
	for name, value := range env {
		if !validName(name) {
			return refuse("env", quote(name), "a name is a letter or _ and then letters, digits or _")
		}
		if strings.HasPrefix(name, reservedPrefix) {
			return refuse("env", quote(name), reservedPrefix+"* is set by Windlass only")
		}
		if strings.ContainsRune(value, 0) {
			return refuse("env["+name+"]", quote(value), "must not contain a NUL byte")
		}
		total += len(name) + len(value) + 2
	}
	if total > EnvBytesMax {
		return refuse("env", fmt.Sprintf("%d bytes long", total), fmt.Sprintf("at most %d bytes", EnvBytesMax))
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func validateDir(dir string) error {
	switch {
	case dir == "":
		return nil
	case dir[0] != '/':
		return refuse("dir", quote(dir), "must be absolute or empty")
	case len(dir) > DirMax:
		return refuse("dir", quote(dir), fmt.Sprintf("at most %d bytes", DirMax))
	case strings.ContainsRune(dir, 0):
		return refuse("dir", quote(dir), "must not contain a NUL byte")
	}
	return nil
}
