package zookeeper

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// layout maps keys to the paths of znodes and back. A key's path is the key below
// the chroot, but for three things:
//
//   - The children of a wide directory stand in 256 buckets, so that no list of
//     children grows too long: /ns/tasks/a is /ns/tasks/_b05/a. Which directories
//     are wide is a matter of their name alone.
//   - What ZooKeeper refuses in a path is escaped as in a URL, and so is the escape
//     itself, an underscore that a segment begins with, and a key's first segment
//     if it is "zookeeper".
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

// The numbers of epochs; see conditions.go. More of them make fewer transactions
// collide by chance; the keys' are many because every creation counts one up.
const (
	keyEpochsCount = 4096
	dirEpochsCount = 256
)

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

// keyEpoch is the path of the epoch that counts creations of a key, and of a directory in
// its place.
func (l layout) keyEpoch(key string) string {
	return fmt.Sprintf("%s%s/%03x", l.chroot, keyEpochs, hash(key)%keyEpochsCount)
}

// dirEpoch is the path of the epoch that counts creations of a directory.
func (l layout) dirEpoch(key string) string {
	return fmt.Sprintf("%s%s/%02x", l.chroot, dirEpochs, hash(key)%dirEpochsCount)
}

// epochOf is the path of the epoch that counts creations of the key at a path, and false
// if there can be none.
func (l layout) epochOf(path string) (string, bool) {
	key, ok := l.key(path)
	return l.keyEpoch(key), ok
}

// directoryEpochs are the paths of the epochs that the creation of a directory counts up.
// That of the key is one of them: where a key was deleted the directory has the version
// that the key had, and would be taken for it.
func (l layout) directoryEpochs(path string) []string {
	epochs := []string{l.dirEpoch(path)}
	if epoch, ok := l.epochOf(path); ok {
		epochs = append(epochs, epoch)
	}
	return epochs
}

// session is the path of the znode by which a session is renewed.
func (l layout) session(id broker.SessionID) string {
	return fmt.Sprintf("%s%s/%016x", l.chroot, sessionsDir, uint64(id))
}

// path is where a key is kept.
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

// key is the key that is kept at a path, and false if none is.
func (l layout) key(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, l.chroot+"/")
	if !ok || rest == "" {
		return "", false
	}
	var b strings.Builder
	wide := false
	for segment := range strings.SplitSeq(rest, "/") {
		if wide {
			wide = false // the bucket
			if isBucket(segment) {
				continue
			}
			return "", false
		}
		name, ok := unescape(segment)
		if !ok {
			return "", false
		}
		b.WriteByte('/')
		b.WriteString(name)
		wide = slices.Contains(l.wide, name)
	}
	// What another client made may be read in more than one way; only what we
	// would spell so is ours.
	key := b.String()
	if broker.CheckKey(key) != nil || l.path(key) != path {
		return "", false
	}
	return key, true
}

// isOurs recognizes the paths of our own znodes.
func (l layout) isOurs(path string) bool {
	return strings.HasPrefix(path, l.chroot+ownDir) && len(path) > len(l.chroot)+len(ownDir) && path[len(l.chroot)+len(ownDir)] == '/' ||
		path == l.chroot+ownDir
}

// isBucket recognizes a bucket of a wide directory by its name.
func isBucket(segment string) bool { return len(segment) == 4 && segment[:2] == "_b" }

// parent returns the path above.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// ancestors returns the paths between the chroot and a path, the highest first.
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

// refused tells what is escaped: the escape, and what ZooKeeper refuses, which
// looks at UTF-16 units: surrogates, private use and specials.
func refused(r rune) bool {
	return r == escapeMark || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

func unescape(segment string) (string, bool) {
	if strings.HasPrefix(segment, "_") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] != escapeMark {
			b.WriteByte(segment[i])
			continue
		}
		if i+2 >= len(segment) {
			return "", false
		}
		c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}
