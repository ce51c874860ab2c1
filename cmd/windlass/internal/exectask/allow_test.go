package exectask

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programs makes a folder with two files and links: cat and dog are links to
// one file that is many programs, as with busybox.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(dir, 0o700)) // whatever the umask is
	for _, name := range []string{"many", "one"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "links"), 0o700))
	for link, target := range map[string]string{"cat": "many", "dog": "many", "links/one": "../one", "alias": "one"} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestAllow(t *testing.T) {
	dir := programs(t)
	for _, c := range []struct {
		name    string
		list    []string
		command string
		want    string // part of the error, or empty
	}{
		{"nothing is allowed by default", nil, "one", "this node allows no command"},
		{"a star allows everything", []string{"*"}, "dog", ""},
		{"a bare name by its name", []string{"one"}, "one", ""},
		{"a bare name by its path", []string{"one"}, dir + "/one", ""},
		{"a path by its bare name", []string{dir + "/one"}, "one", ""},
		{"a link to it of the same name", []string{"one"}, dir + "/links/one", ""},
		{"a path that is not clean", []string{"one"}, dir + "/links/../one", ""},
		{"another program", []string{"one"}, "cat", "this node allows " + dir + "/one"},
		{"another name of a file that is many programs", []string{"cat"}, "dog", "this node allows " + dir + "/many as cat"},
		{"the file itself, which takes its name from an argument", []string{"cat"}, "many", "not allowed"},
		{"the same link", []string{"cat"}, dir + "/cat", ""},
		{"an alias", []string{"one"}, "alias", "not allowed"},
		{"a relative path", []string{"*"}, "./one", "must be an absolute path or a bare name"},
		{"a relative path without dot", []string{"*"}, "links/one", "must be an absolute path or a bare name"},
		{"an unknown name", []string{"*"}, "nope", `command "nope": not found in PATH`},
		{"an unknown path", []string{"*"}, "/nope", `command "/nope": not found`},
		{"not a program", []string{"*"}, dir + "/plain", "not executable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := NewAllow(c.list)
			must(t, err)
			path, err := a.Check(Props{Command: []string{c.command, "x"}})
			switch {
			case c.want != "":
				contains(t, err, c.want, c.command)
				if !errors.Is(err, ErrNotAllowed) && !errors.Is(err, ErrNotStarted) {
					t.Errorf("%v has no sentinel", err)
				}
			case err != nil:
				t.Error(err)
			case !filepath.IsAbs(path):
				t.Errorf("path %q", path)
			}
		})
	}
}

func TestAllowRefusesAListThatCannotBeMeant(t *testing.T) {
	programs(t)
	for want, list := range map[string][]string{
		`allow[1] is "nope": not found in PATH`: {"one", "nope"},
		`allow[0] is "./one": must be an`:       {"./one"},
		`allow[0] is "": `:                      {""},
		"allow is 1025 entries long":            make([]string, AllowMax+1),
	} {
		_, err := NewAllow(list)
		contains(t, err, want)
	}
}

func TestAllowLetsATaskSetTheVariablesThatTheNodeNames(t *testing.T) {
	programs(t)
	none, err := NewAllow([]string{"one"})
	must(t, err)
	some, err := none.Setting([]string{"COLOUR"})
	must(t, err)
	all, err := NewAllow([]string{"*"})
	must(t, err)
	for _, name := range []string{"LD_PRELOAD", "PYTHONWARNINGS", "TAR_OPTIONS", "GIT_EXTERNAL_DIFF", "JDK_JAVA_OPTIONS", "colour"} {
		p := Props{Command: []string{"one"}, Env: map[string]string{name: "x", "COLOUR": "red"}}
		_, err := some.Check(p)
		contains(t, err, "env "+name+" is not a variable")
		if _, err := all.Check(p); err != nil {
			t.Error(err)
		}
	}
	if _, err := some.Check(Props{Command: []string{"one"}, Env: map[string]string{"COLOUR": "red"}}); err != nil {
		t.Error(err)
	}
	for want, env := range map[string][]string{
		`env[1] is "A-B"`:         {"A", "A-B"},
		`env[0] is "WINDLASS_A"`:  {"WINDLASS_A"},
		`env[0] is ""`:            {""},
		"env is 257 entries long": make([]string, EnvMax+1),
	} {
		_, err := none.Setting(env)
		contains(t, err, want)
	}
}

// The checked program is started even if its link is changed in between.
func TestAllowIsNotPassedByALinkThatTurns(t *testing.T) {
	dir := programs(t)
	a, err := NewAllow([]string{"cat"})
	must(t, err)
	command := Props{Command: []string{dir + "/cat"}}
	path, err := a.Check(command)
	must(t, err)
	must(t, os.Remove(dir+"/cat"))
	must(t, os.Symlink("one", dir+"/cat"))
	if file, err := filepath.EvalSymlinks(path); err != nil || file != dir+"/many" {
		t.Errorf("the link was changed, and the program to start is %s, %v", file, err)
	}
	_, err = a.Check(command)
	contains(t, err, "not allowed")
}

func TestAllowRefusesWhatOthersCouldChange(t *testing.T) {
	dir := programs(t)
	a, err := NewAllow([]string{"one"})
	must(t, err)
	for _, c := range []struct {
		path string
		mode os.FileMode
		want string
	}{
		{dir + "/one", 0o770, dir + "/one may be written by others (mode 0770)"},
		{dir + "/one", 0o702, "(mode 0702)"},
		{dir, 0o777, dir + " may be written by others (mode 0777); chmod go-w " + dir},
		{dir, 0o777 | os.ModeSticky, ""},
	} {
		info, err := os.Stat(c.path)
		must(t, err)
		must(t, os.Chmod(c.path, c.mode))
		_, atStart := NewAllow([]string{"one"})
		_, atRun := a.Check(Props{Command: []string{"one"}})
		must(t, os.Chmod(c.path, info.Mode()))
		if c.want == "" {
			must(t, errors.Join(atStart, atRun))
			continue
		}
		contains(t, atStart, "allow[0]", c.want)
		contains(t, atRun, "not allowed", c.want)
	}
}

func TestAllowShortensALongList(t *testing.T) {
	programs(t)
	a, err := NewAllow(strings.Split(strings.Repeat("one ", 20)+"one", " "))
	must(t, err)
	if s := a.String(); !strings.HasSuffix(s, "and 13 more") {
		t.Error(s)
	}
}
