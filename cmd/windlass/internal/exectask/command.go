package exectask

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A Command is one run of a program for a task.
type Command struct {
	// Task is the task's ID, 1 to TaskMax bytes. The child reads it as
	// WINDLASS_TASK, and the log is named by it.
	Task string
	// Token is the fencing token in its public form, up to TokenMax bytes; the
	// child reads it as WINDLASS_TOKEN.
	Token string
	// Path is the program's absolute path, as Allow.Check returned it.
	Path string
	// Argv is the program's name and arguments, as in Props.Command.
	Argv []string
	// Env is added to the child's environment, as in Props.Env.
	Env map[string]string
	// Environ, if set, replaces the few variables that a child inherits, as name=value.
	// Names are not limited as in Env, but WINDLASS_TASK, _TOKEN, _NODE and _RUN in it
	// have no effect.
	Environ []string
	// Dir is the working folder; empty means the one the node started in.
	Dir string
	// Grace is the time from SIGTERM to SIGKILL: zero means Config.Grace, at
	// most GraceMax.
	Grace time.Duration
	// LogFailed, if set, is called at most once, when output is missing in the log, or
	// comes late. It must not block.
	LogFailed func(err error)
}

func (c Command) validate() error {
	if c.Task == "" || len(c.Task) > TaskMax || strings.ContainsRune(c.Task, 0) {
		return refuse("task", quote(c.Task), fmt.Sprintf("1 to %d bytes without NUL", TaskMax))
	}
	if len(c.Token) > TokenMax || strings.ContainsAny(c.Token, "\x00\n") {
		return refuse("token", quote(c.Token), fmt.Sprintf("at most %d bytes on one line", TokenMax))
	}
	if c.Path == "" || c.Path[0] != '/' || len(c.Path) > DirMax || strings.ContainsRune(c.Path, 0) {
		return refuse("path", quote(c.Path), fmt.Sprintf("an absolute path of at most %d bytes", DirMax))
	}
	if err := validateArgv("argv", c.Argv); err != nil {
		return err
	}
	if err := validateEnv(c.Env); err != nil {
		return err
	}
	if c.Grace < 0 || c.Grace > GraceMax {
		return refuse("grace", c.Grace, fmt.Sprintf("0 to %s", GraceMax))
	}
	total := 0
	for _, entry := range c.Environ {
		if total += len(entry) + 1; strings.ContainsRune(entry, 0) {
			return refuse("environ", quote(entry), "must not contain a NUL byte")
		}
	}
	if total > EnvironBytesMax {
		return refuse("environ", fmt.Sprintf("%d bytes long", total), fmt.Sprintf("at most %d bytes", EnvironBytesMax))
	}
	return validateDir(c.Dir)
}

// Names of the variables by which a child knows its task and run. By markerName the
// supervisor also finds the run of a process that left its group.
const (
	taskName   = reservedPrefix + "TASK"
	tokenName  = reservedPrefix + "TOKEN"
	nodeName   = reservedPrefix + "NODE"
	markerName = reservedPrefix + "RUN"
)

// inherited are the only variables of the node that a child sees: the node's broker
// credentials, above all, stay with the node.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"}

// inherit returns the inherited variables of this process. Another user has names of its
// own, and cannot use the node's folder for temporary files.
func inherit(as *User) (env []string) {
	for _, name := range inherited {
		value, ok := os.LookupEnv(name)
		if as != nil {
			switch name {
			case "HOME":
				value, ok = as.Home, true
			case "USER":
				value, ok = as.Name, true
			case "TMPDIR":
				ok = false
			}
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// environment returns the child's environment. The marker comes first, where a search of
// /proc/<pid>/environ finds it soonest.
func (c Command) environment(node, run string, as *User) []string {
	env := []string{markerName + "=" + run, taskName + "=" + c.Task, tokenName + "=" + c.Token, nodeName + "=" + node}
	given, own := c.Environ, []string{markerName, taskName, tokenName, nodeName}
	if given == nil {
		given = inherit(as)
	}
	for _, entry := range given {
		name, _, _ := strings.Cut(entry, "=")
		if _, ok := c.Env[name]; !ok && !slices.Contains(own, name) {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}
