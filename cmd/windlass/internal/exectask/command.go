package exectask

import (
	"fmt"
	"os"
	"slices"
	"sort"
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
	// Environ, if set, is the environment that Env is added to, as name=value, in
	// the place of the few variables that a child inherits. It may have names that
	// Env may not, but for those that tell a child who it is.
	Environ []string
	// Dir is the working folder; empty means the one the node started in.
	Dir string
	// Grace is the time from SIGTERM to SIGKILL: zero means Config.Grace, at
	// most GraceMax.
	Grace time.Duration
}

// NewCommand prepares a run of a task with these props; path is what Allow.Check returned.
func NewCommand(p Props, path, task, token string) Command {
	return Command{Task: task, Token: token, Path: path, Argv: p.Command, Env: p.Env, Dir: p.Dir}
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

// Names of the variables that tell a child who it is. markerName also tells
// the supervisor whose a process is that left its group.
const (
	taskName   = reservedPrefix + "TASK"
	tokenName  = reservedPrefix + "TOKEN"
	nodeName   = reservedPrefix + "NODE"
	markerName = reservedPrefix + "RUN"
)

// inherited are the only variables of the node that a child sees. Everything
// else, the node's broker credentials first, stays with the node.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"}

// inherit reads the inherited variables of this process.
func inherit() []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// environment is what a child sees. The marker comes first, where a search
// of /proc/<pid>/environ finds it soonest.
func (c Command) environment(node, run string, as *User) []string {
	env := []string{markerName + "=" + run, taskName + "=" + c.Task, tokenName + "=" + c.Token, nodeName + "=" + node}
	given, own := c.Environ, []string{markerName, taskName, tokenName, nodeName}
	if given == nil {
		given = as.inherit()
	}
	for _, entry := range given {
		name, _, _ := strings.Cut(entry, "=")
		if _, ok := c.Env[name]; !ok && !slices.Contains(own, name) {
			env = append(env, entry)
		}
	}
	first := len(env)
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	sort.Strings(env[first:])
	return env
}
