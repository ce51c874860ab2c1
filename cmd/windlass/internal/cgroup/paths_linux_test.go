package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountsOf_FindsThemWhereverTheyAre(t *testing.T) {
	const info = `31 1 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
42 31 0:38 /docker/1 /mnt/a\040b ro - cgroup2 cgroup rw,nsdelegate
short - cgroup2 x
`
	want := []mount{{"/", "/sys/fs/cgroup/unified"}, {"/docker/1", "/mnt/a b"}}
	if diff := cmp.Diff(want, mountsOf(info), cmp.AllowUnexported(mount{})); diff != "" {
		t.Error(diff)
	}
}

func TestPathOf_IsThatOfVersionTwo(t *testing.T) {
	for groups, want := range map[string]string{
		"9:name=systemd:/\n8:pids:/x\n0::/user.slice/a\n": "/user.slice/a",
		"0::/\n":                "/",
		"0::/a (deleted)\n":     "/a",
		"1:cpu:/only-version-1": "",
		"":                      "",
	} {
		got, err := pathOf(groups)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", groups, got, err)
		}
	}
}

func TestBelow_IsThePathAsSeenFromAFolderAboveIt(t *testing.T) {
	for _, test := range []struct {
		path, root, want string
		ok               bool
	}{
		{"/a/b", "/", "/a/b", true},
		{"/a/b", "/a", "/b", true},
		{"/a", "/a", "", true},
		{"/ab", "/a", "", false},
		{"/", "/a", "", false},
	} {
		got, ok := below(test.path, test.root)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s below %s: %q, %t", test.path, test.root, got, ok)
		}
	}
}
