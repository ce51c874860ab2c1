package zookeeper

import (
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// layout maps keys to the paths of znodes and back. A key's path is the key below
// the chroot, except that:
//
//   - The children of a wide directory are in 256 buckets, so that no list of
//     children grows too long: /ns/tasks/a is /ns/tasks/_b05/a. A directory is wide
//     because of its name alone.
//   - Characters that ZooKeeper refuses in a path are escaped as in a URL, and so are the
//     escape itself, an underscore at the beginning of a segment, and a key's first
//     segment if it is "zookeeper".
//   - Our own znodes are below /_windlass.
type layout struct {
	chroot string
	wide   []string
}

// Our own znodes, below the chroot.
const (
	ownDir      = "/_windlass"
	keyEpochs   = ownDir + "/keys"
	dirEpochs   = ownDir + "/dirs"
	sessionsDir = ownDir + "/sessions"
)

// The numbers of epochs; see plan. With more of them fewer transactions collide by
// chance; keys have many because every creation increments one.
const (
	keyEpochsCount = 4096
	dirEpochsCount = 256
)

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// keyEpoch returns the path of the epoch that counts creations of a key, and of a directory
// in its place.
func (l layout) keyEpoch(key string) string {
	return fmt.Sprintf("%s%s/%03x", l.chroot, keyEpochs, hash(key)%keyEpochsCount)
}

// dirEpoch returns the path of the epoch that counts creations of a directory.
func (l layout) dirEpoch(key string) string {
	return fmt.Sprintf("%s%s/%02x", l.chroot, dirEpochs, hash(key)%dirEpochsCount)
}

// epochOf returns the path of the epoch that counts creations of the key at a path, and
// false if no key can be there.
func (l layout) epochOf(path string) (string, bool) {
	key, ok := l.key(path)
	return l.keyEpoch(key), ok
}

// directoryEpochs returns the paths of the epochs that the creation of a directory
// increments. The key's epoch is among them: a directory in place of a deleted key has the
// version that the key had, and would be mistaken for it.
func (l layout) directoryEpochs(path string) []string {
	epochs := []string{l.dirEpoch(path)}
	if epoch, ok := l.epochOf(path); ok {
		epochs = append(epochs, epoch)
	}
	return epochs
}

// session returns the path of the znode that renewals of a session write.
func (l layout) session(id broker.SessionID) string {
	return fmt.Sprintf("%s%s/%016x", l.chroot, sessionsDir, uint64(id))
}

// path returns the path of a key's znode.
func (l layout) path(key string) string {
	var b strings.Builder
	b.WriteString(l.chroot)
	wide := false
	for i, segment := range strings.Split(key[1:], "/") {
		if wide {
			fmt.Fprintf(&b, "/_b%02x", hash(segment)%256)
		}
		b.WriteByte('/')
		b.WriteString(escape(segment, i == 0))
		wide = slices.Contains(l.wide, segment)
	}
	return b.String()
}

// key returns the key that is stored at a path, and false if there is none.
func (l layout) key(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, l.chroot+"/")
	if !ok || rest == "" {
		return "", false
	}
	var b strings.Builder
	wide := false
	for segment := range strings.SplitSeq(rest, "/") {
		if wide {
			if len(segment) != 4 || !strings.HasPrefix(segment, "_b") {
				return "", false
			}
			wide = false // this was the bucket
			continue
		}
		name, ok := unescape(segment)
		if !ok {
			return "", false
		}
		b.WriteByte('/')
		b.WriteString(name)
		wide = slices.Contains(l.wide, name)
	}
	// Another client's path may decode to a key that we would store elsewhere.
	key := b.String()
	if broker.CheckKey(key) != nil || l.path(key) != path {
		return "", false
	}
	return key, true
}

// isOurs reports whether a path is that of one of our own znodes.
func (l layout) isOurs(path string) bool {
	return path == l.chroot+ownDir || strings.HasPrefix(path, l.chroot+ownDir+"/")
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// ancestors returns the paths between the chroot and a path, parents first.
func (l layout) ancestors(path string) []string {
	var all []string
	for i := len(l.chroot) + 1; i < len(path); i++ {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

const escapeMark = '%'

// escape spells a segment of a key so that ZooKeeper accepts it.
func escape(segment string, first bool) string {
	if !slices.ContainsFunc([]rune(segment), refused) && segment[0] != '_' && !(first && segment == "zookeeper") {
		return segment
	}
	var b strings.Builder
	for i, r := range segment {
		if refused(r) || i == 0 {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%c%02X", escapeMark, c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// refused reports whether a character must be escaped: the escape itself, and what
// ZooKeeper refuses by UTF-16 unit: surrogates, private use and specials.
func refused(r rune) bool {
	return r == escapeMark || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

func unescape(segment string) (string, bool) {
	name, err := url.PathUnescape(segment)
	return name, err == nil && !strings.HasPrefix(segment, "_")
}
