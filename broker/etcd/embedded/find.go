package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

// The errors of Find. A folder that does not exist is fs.ErrNotExist, and one that
// other users can reach is a FolderError.
var (
	// ErrNotRunning: no process has the folder open.
	ErrNotRunning = errors.New("no embedded etcd is running there")
	// ErrNoSocket: a process has the folder open but cannot be reached.
	ErrNoSocket = errors.New("it has no socket, so only its own process can use it (or it is still starting)")
)

// Find returns the socket of the server that has a data folder open, and its holder.
// For a server without a socket it still returns the holder.
func Find(dir string) (socket string, holder Holder, err error) {
	// Somebody else may have replaced the folder, and would then be the broker.
	real, err := checkedFolder(dir)
	if err != nil {
		return "", Holder{}, err
	}
	holder, err = holderOf(real)
	if err != nil {
		return "", Holder{}, err
	}
	if holder.Socket == "" {
		return "", holder, fmt.Errorf("data folder %s is in use by %v: %w", dir, holder, ErrNoSocket)
	}
	return holder.Socket, holder, nil
}

// Dial connects to the server of a data folder through its socket, from any
// process of the same user.
func Dial(ctx context.Context, dir string) (*etcd.Broker, error) {
	socket, _, err := Find(dir)
	if err != nil {
		return nil, broker.NewError("open", dir, broker.ErrUnavailable, err)
	}
	return etcd.Open(ctx, etcd.Config{Endpoints: []string{"unix://" + socket}})
}
