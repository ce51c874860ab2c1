package exectask

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Allow is the list of programs that a node runs for tasks. The zero value
// allows nothing.
//
// It limits which program starts, not what it does: anyone who may submit tasks may run
// an allowed program with any arguments in any folder. An allowed interpreter allows
// everything.
type Allow struct {
	all     bool
	allowed []allowed
	// env are the variables that tasks may set.
	env []string
}

// allowed is one program of the list. A command must match both the file, whatever path
// leads to it, and the name: with busybox, where ls and rm are links to one file, the
// file alone would let "ls" allow "rm".
type allowed struct {
	name string // last element, as listed
	file string // absolute, links resolved
}

// NewAllow resolves a list of absolute paths and of bare names found through PATH; "*"
// allows every program. It does so once, so that a later change of PATH cannot widen the
// list. A program that other users could change is refused.
func NewAllow(list []string) (Allow, error) {
	if len(list) > AllowMax {
		return Allow{}, refuse("allow", fmt.Sprintf("%d entries long", len(list)), fmt.Sprintf("at most %d", AllowMax))
	}
	var a Allow
	for i, entry := range list {
		if entry == "*" {
			a.all = true
			continue
		}
		path, file, err := locate(entry)
		if err == nil {
			err = onlyOurs(file)
		}
		if err != nil {
			return Allow{}, refuse(fmt.Sprintf("allow[%d]", i), quote(entry), err.Error())
		}
		a.allowed = append(a.allowed, allowed{name: filepath.Base(path), file: file})
	}
	return a, nil
}

// Setting returns the list with the variables that tasks may set. Without it they may set
// none, as no list of the variables by which programs load others is complete. If every
// program is allowed, they may set all.
func (a Allow) Setting(env []string) (Allow, error) {
	if len(env) > EnvMax {
		return Allow{}, refuse("env", fmt.Sprintf("%d entries long", len(env)), fmt.Sprintf("at most %d", EnvMax))
	}
	for i, name := range env {
		if !validName(name) || strings.HasPrefix(name, reservedPrefix) {
			return Allow{}, refuse(fmt.Sprintf("env[%d]", i), quote(name), "a letter or _ and then letters, digits or _, and none of "+reservedPrefix+"*")
		}
	}
	a.env = env
	return a, nil
}

// Check finds the program of a command, and returns an error unless it and the variables
// that it sets are allowed. The path is absolute, and with a list other than "*" has no
// links, which could be changed to another program after the check.
func (a Allow) Check(p Props) (path string, err error) {
	if err := validateArgv("command", p.Command); err != nil {
		return "", err
	}
	path, file, err := locate(p.Command[0])
	if err != nil {
		return "", fmt.Errorf("%w: command %q: %s", ErrNotStarted, p.Command[0], err)
	}
	if a.all {
		return path, nil
	}
	if !slices.Contains(a.allowed, allowed{name: filepath.Base(path), file: file}) {
		return "", fmt.Errorf("%w: %q (%s); this node allows %s", ErrNotAllowed, p.Command[0], file, a)
	}
	if err := onlyOurs(file); err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrNotAllowed, p.Command[0], err)
	}
	for name := range p.Env {
		if !slices.Contains(a.env, name) {
			return "", fmt.Errorf("%w: env %s is not a variable that this node lets tasks set", ErrNotAllowed, name)
		}
	}
	return file, nil
}

// String lists what is allowed.
func (a Allow) String() string {
	if a.all {
		return "everything"
	}
	if len(a.allowed) == 0 {
		return "no command"
	}
	const few = 8
	var names []string
	for _, e := range a.allowed[:min(few, len(a.allowed))] {
		name := e.file
		if e.name != filepath.Base(e.file) {
			name += " as " + e.name
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if more := len(a.allowed) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// locate finds the path to start and the file behind it. It refuses a relative path, which
// depends on the node's working folder.
func locate(program string) (path, file string, err error) {
	if strings.ContainsRune(program, '/') && !filepath.IsAbs(program) {
		return "", "", errors.New("must be an absolute path or a bare name")
	}
	path, err = exec.LookPath(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", errors.New("not found")
	case errors.Is(err, exec.ErrNotFound):
		return "", "", errors.New("not found in PATH")
	case errors.Is(err, exec.ErrDot):
		return "", "", errors.New("found only through a relative entry of PATH")
	case errors.Is(err, fs.ErrPermission):
		return "", "", errors.New("not executable")
	case err != nil:
		return "", "", err
	}
	path = filepath.Clean(path)
	file, err = filepath.EvalSymlinks(path)
	return path, file, err
}
