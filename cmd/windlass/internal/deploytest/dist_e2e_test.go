//go:build e2e

package deploytest

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// repository is a copy of the project as it is now, committed. That takes a clone.
func repository(t *testing.T) string {
	t.Helper()
	root, folder := filepath.Join(deploy, ".."), t.TempDir()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("this is no clone, or there is no git:", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		copyFile(t, filepath.Join(root, name), filepath.Join(folder, name))
	}
	shell(t, folder, "git init -q && git config user.name test && git config user.email test@test && git add -A && git commit -qm test")
	return folder
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) {
		return // it is deleted, and that is not committed
	}
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
		t.Fatal(err)
	}
	if info.Mode().Type() == os.ModeSymlink {
		target, err := os.Readlink(from)
		if err := errors.Join(err, os.Symlink(target, to)); err != nil {
			t.Fatal(err)
		}
		return
	}
	content, err := os.ReadFile(from)
	if err := errors.Join(err, os.WriteFile(to, content, info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
}

func run(folder string, env []string, name string, args ...string) (out string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	all, err := cmd.CombinedOutput()
	return string(all), err
}

func shell(t *testing.T, folder, script string) {
	t.Helper()
	if out, err := run(folder, nil, "sh", "-c", script); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

func TestDist_ArchivesHaveWhatANewcomerExpects(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs GNU tar")
	}
	folder, platform := repository(t), runtime.GOOS+"/"+runtime.GOARCH
	shell(t, folder, "tools/modules release v0.1.0 && git checkout -q v0.1.0")
	name := "windlass_v0.1.0_" + strings.ReplaceAll(platform, "/", "_")
	archive := filepath.Join(folder, "dist", name+".tar.gz")
	pack := func() []byte {
		if out, err := run(folder, nil, "tools/dist", "archives", "v0.1.0", platform); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	first := pack()
	shell(t, folder, "git tag -d cmd/windlass/v0.1.0") // which Go would look at
	content := pack()
	if string(first) != string(content) {
		t.Error("the archive of the same commit is another one")
	}
	sums, err := os.ReadFile(filepath.Join(folder, "dist/SHA256SUMS"))
	if want := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(content), name); err != nil || string(sums) != want {
		t.Errorf("SHA256SUMS is %q, %v, want %q", sums, err, want)
	}
	files := unpack(t, archive)
	for _, want := range []string{"windlass", "LICENSE", "README.md", "completions/windlass.bash", "completions/_windlass", "completions/windlass.fish", "man/man1/windlass-task-submit.1"} {
		if files[name+"/"+want] == "" {
			t.Errorf("it lacks %s", want)
		}
	}
	unpacked := filepath.Join(t.TempDir(), "windlass")
	if err := os.WriteFile(unpacked, []byte(files[name+"/windlass"]), 0o755); err != nil {
		t.Fatal(err)
	}
	revision, err := run(folder, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	saysVersion(t, unpacked, "v0.1.0", strings.TrimSpace(revision))
}

// unpack reads an archive: the contents of files by their names.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d (%s)", header.Name, header.Uid, header.Uname)
		}
		files[header.Name] = string(content)
	}
}

func saysVersion(t *testing.T, program, version, revision string) {
	t.Helper()
	out, err := run("", nil, program, "version", "-o", "json")
	for _, want := range []string{fmt.Sprintf(`"version": %q`, version), fmt.Sprintf(`"revision": %q`, revision)} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("windlass version says %v: %s, want %s", err, out, want)
		}
	}
	if out, err := run("", nil, program, "--version"); err != nil || out != "windlass "+version+"\n" {
		t.Errorf("windlass --version says %v: %s", err, out)
	}
}

func TestContainerfile_StampsTheProgram(t *testing.T) {
	for _, i := range instructions(read(t, "container/Containerfile")) {
		if i.name != "RUN" || !strings.Contains(i.args, "go build") {
			continue
		}
		built := filepath.Join(t.TempDir(), "windlass")
		command := strings.Replace(i.args, "-o /windlass ", "-o "+built+" ", 1)
		if out, err := run(filepath.Join(deploy, ".."), []string{"TARGETOS=" + runtime.GOOS, "TARGETARCH=" + runtime.GOARCH, "VERSION=v0.1.0", "REVISION=abc"}, "sh", "-c", command); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		saysVersion(t, built, "v0.1.0", "abc")
		return
	}
	t.Error("it builds nothing")
}

func TestDist_RefusesWhatIsNoVersionOfThisCommit(t *testing.T) {
	folder := repository(t)
	refuses := func(want string, args ...string) {
		t.Helper()
		out, err := run(folder, nil, "tools/dist", args...)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(out, want) {
			t.Errorf("dist %q: %v: %s, want %q", args, err, out, want)
		}
	}
	refuses("tools/dist archives VERSION")
	refuses("VERSION is missing", "archives")
	refuses("VERSION is missing", "image", "")
	for _, version := range []string{"0.1.0", "v1", "v01.0.0", "v0.1.0+x", "v0.1.0-", "v0.1.0; true", "v0.1.0\n"} {
		refuses("must be like v0.1.0", "archives", version)
	}
	shell(t, folder, "git tag v0.2.0 && git commit -q --allow-empty -m later")
	refuses("the tag v0.2.0 is of another commit", "archives", "v0.2.0")
	if err := os.WriteFile(filepath.Join(folder, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refuses("not committed", "image", "v0.1.0")
}
