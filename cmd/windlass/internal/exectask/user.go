package exectask

import (
	"fmt"
	"math"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// User is a user other than the node's own that commands run as: then they can neither
// read the node's files nor end or freeze the node.
type User struct {
	// Name and Home are USER and HOME of the commands.
	Name, Home string
	// UID and GID are the numbers of user and primary group, Groups those of other groups.
	UID, GID uint32
	Groups   []uint32
}

// FindUser looks up a user by name or number. Root and members of root's group are refused,
// and so is a process without the rights to start and end processes of other users.
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
		if err != nil || n == math.MaxUint32 { // which the system takes for no user
			return nil, refuse("user", quote(name), fmt.Sprintf("must have numbers below %d, not %q", uint32(math.MaxUint32), text))
		}
		numbers = append(numbers, uint32(n))
	}
	u := &User{Name: found.Username, Home: found.HomeDir, UID: numbers[0], GID: numbers[1], Groups: numbers[2:]}
	switch {
	case u.UID == 0:
		return nil, refuse("user", quote(name), "must not be root, who may do everything")
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
