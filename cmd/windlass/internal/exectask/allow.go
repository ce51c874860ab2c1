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
// It limits which program starts, not what the program does: whoever may
// submit tasks may run an allowed program with any arguments, in any folder.
// Allowing an interpreter allows everything.
type Allow struct {
	all     bool
	allowed []allowed
	// env are the variables that tasks may set.
	env []string
}

// allowed is one program of the list. Both must match: the file, so that
// another path to it is the same program; and the name, because one file can
// be many programs by the name it is called by. With busybox, where ls and rm
// are links to one file, comparing files alone would let "ls" allow "rm".
type allowed struct {
	name string // last element, as listed
	file string // absolute, links resolved
}

// NewAllow resolves a list of absolute paths and of bare names found through
// PATH; "*" allows every program. Resolving once, at the node's start, means
// that a later change of PATH cannot widen the list. What others could change is
// refused.
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
		if err != nil {
			return Allow{}, refuse(fmt.Sprintf("allow[%d]", i), quote(entry), err.Error())
		}
		if err := onlyOurs(file); err != nil {
			return Allow{}, refuse(fmt.Sprintf("allow[%d]", i), quote(entry), err.Error())
		}
		a.allowed = append(a.allowed, allowed{name: filepath.Base(path), file: file})
	}
	return a, nil
}

// Setting is the list with the variables that tasks may set besides: without, none, as no
// list of those by which programs load others is complete. Where every program is allowed
// they may set all.
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

// Check finds the program of a command and says whether it is allowed, and the
// variables that it sets. It returns the absolute path to start, which with a list other
// than "*" has no links: nobody can turn one from what was checked to another program.
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
			return "", fmt.Errorf("%w: env %s is none that this node lets tasks set", ErrNotAllowed, name)
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
	var b strings.Builder
	for i, e := range a.allowed {
		if i == few {
			fmt.Fprintf(&b, " and %d more", len(a.allowed)-few)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(e.file)
		if e.name != filepath.Base(e.file) {
			fmt.Fprintf(&b, " as %s", e.name)
		}
	}
	return b.String()
}

// locate finds the path to start and the file behind it. A relative path is
// refused: what it names depends on the node's working folder.
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
