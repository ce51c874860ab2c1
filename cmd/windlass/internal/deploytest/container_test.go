package deploytest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a container file.
type instruction struct {
	name string
	args string
}

// instructions reads a container file: comments, and lines that are continued.
func instructions(text string) (list []instruction) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		list = append(list, instruction{name, strings.Join(strings.Fields(args), " ")})
	}
	return list
}

var known = []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "LABEL", "USER", "ENV", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}

func TestContainerfile_IsAStaticBinaryAndNobodyInParticular(t *testing.T) {
	var stages []string
	last := map[string]string{}
	all := instructions(read(t, "container/Containerfile"))
	for _, i := range all {
		if !slices.Contains(known, i.name) || i.args == "" {
			t.Errorf("%s %s: not known", i.name, i.args)
		}
		if i.name == "FROM" {
			last = map[string]string{}
			_, stage, _ := strings.Cut(i.args, " AS ")
			stages = append(stages, stage)
		}
		if m := regexp.MustCompile(`--from=(\S+)`).FindStringSubmatch(i.args); m != nil && !slices.Contains(stages, m[1]) {
			t.Errorf("%s %s: there is no stage %q before it", i.name, i.args, m[1])
		}
		last[i.name] += i.args
	}
	if len(stages) != 2 || stages[0] != "build" {
		t.Errorf("it has the stages %q", stages)
	}
	for name, want := range map[string]string{
		"FROM": "$BASE", "COPY": "--from=build /windlass /windlass", "USER": "65532:65532", "ENTRYPOINT": `["/windlass"]`, "STOPSIGNAL": "SIGTERM",
		"LABEL": `org.opencontainers.image.licenses="Apache-2.0"`,
	} {
		if !strings.Contains(last[name], want) {
			t.Errorf("in the image %s is %q, want %s", name, last[name], want)
		}
	}
	if m := regexp.MustCompile(`"([^"]+)"`).FindStringSubmatch(last["VOLUME"]); m == nil || !strings.Contains(last["COPY"], "--chown="+last["USER"]+" /state "+m[1]) {
		t.Errorf("the volume %s is not a folder of %s", last["VOLUME"], last["USER"])
	}
	for _, base := range []string{"BUILDER=docker.io/library/golang:", "BASE=gcr.io/distroless/static-"} { // which who builds may name by digest
		if !slices.ContainsFunc(all, func(i instruction) bool { return i.name == "ARG" && strings.HasPrefix(i.args, base) }) {
			t.Errorf("no ARG is %s…", base)
		}
	}
	if last["RUN"] != "" {
		t.Errorf("the image has no shell to run %q", last["RUN"])
	}
	build := slices.IndexFunc(all, func(i instruction) bool { return strings.Contains(i.args, "go build") })
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "./cmd/windlass"} {
		if build < 0 || !strings.Contains(all[build].args, want) {
			t.Errorf("it is not built with %s", want)
		}
	}
}

func TestContainerignore_LeavesWhatTheProgramIsBuiltOf(t *testing.T) {
	kept := map[string]bool{}
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			if matches, err := filepath.Glob(filepath.Join(deploy, "..", name)); err != nil || len(matches) == 0 {
				t.Errorf("!%s: there is no such file", name)
			}
			kept[name] = true
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}", "./cmd/windlass")
	list.Dir = filepath.Join(deploy, "..")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(list.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	if len(dirs) < 20 {
		t.Fatalf("the program is built of %q", dirs)
	}
	for _, dir := range dirs {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if top, _, _ := strings.Cut(filepath.ToSlash(rel), "/"); top == "." && !kept["*.go"] || top != "." && !kept[top] {
			t.Errorf("the package in %s does not reach the build", rel)
		}
	}
}
