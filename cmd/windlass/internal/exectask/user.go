package exectask

import (
	"fmt"
	"math"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// User is whom commands run as, if not the node's own user. Then they can neither read the
// node's files nor end or freeze the node.
type User struct {
	// Name and Home are USER and HOME of the commands.
	Name, Home string
	// UID and GID are numbers of the system, Groups those besides GID.
	UID, GID uint32
	Groups   []uint32
}

// FindUser looks up a user by name or number, who is not root nor in root's group. This
// process must have the rights to start and end processes of others.
func FindUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if _, isNumber := strconv.ParseUint(name, 10, 32); err != nil && isNumber == nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		return nil, refuse("user", quote(name), "must be a user of this system: "+err.Error())
	}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, refuse("user", quote(name), "must have groups that can be read: "+err.Error())
	}
	var numbers []uint32
	for _, text := range append([]string{found.Uid, found.Gid}, groups...) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == math.MaxUint32 { // which stands for none
			return nil, refuse("user", quote(name), fmt.Sprintf("must have numbers below %d, not %q", uint32(math.MaxUint32), text))
		}
		numbers = append(numbers, uint32(n))
	}
	u := &User{Name: found.Username, Home: found.HomeDir, UID: numbers[0], GID: numbers[1], Groups: numbers[2:]}
	switch {
	case u.UID == 0:
		return nil, refuse("user", quote(name), "must not be root, from whom nothing is safe")
	case slices.Contains(numbers[1:], 0):
		return nil, refuse("user", quote(name), "must not be in root's group")
	}
	if err := mayBecomeOthers(); err != nil {
		return nil, refuse("user", quote(name), err.Error())
	}
	return u, nil
}

// credential is nil for the node's own user.
func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// inherit reads the inherited variables of this process, with the names of the user in the
// place of the node's, and not the node's folder for temporary files.
func (u *User) inherit() []string {
	own := inherit()
	if u == nil {
		return own
	}
	own = slices.DeleteFunc(own, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "HOME" || name == "USER" || name == "TMPDIR"
	})
	return append(own, "HOME="+u.Home, "USER="+u.Name)
}
