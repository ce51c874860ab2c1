package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Member is a server of the ensemble, as it describes itself.
type Member struct {
	// Address is the address at which it was asked.
	Address string
	// Version is the version of the server, such as "3.8.0".
	Version string
	// Mode is "leader", "follower", "observer" or "standalone". It is empty for a
	// server without a quorum, which does not serve requests.
	Mode string
	// Err is the reason if nothing is known of the server, nil if it answered.
	Err error
}

// Limits of the answer of one server.
const (
	memberTimeout  = 3 * time.Second
	memberBytesMax = 64 << 10
)

// Members asks the servers of a configuration to describe themselves, concurrently, by
// the command "srvr". Every server answers it unless its 4lw.commands.whitelist leaves
// it out. It needs no leader. A server that does not answer is in the list with its
// error. The list is in the order of Config.Servers.
func Members(ctx context.Context, config Config) ([]Member, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	members := make([]Member, len(config.Servers))
	var asking sync.WaitGroup
	for i, address := range config.Servers {
		asking.Go(func() {
			members[i] = Member{Address: address}
			answer, err := config.ask(ctx, address)
			if err == nil {
				err = members[i].read(answer)
			}
			members[i].Err = err
		})
	}
	asking.Wait()
	return members, nil
}

// Members asks the servers of the ensemble to describe themselves; see the function.
func (b *Broker) Members(ctx context.Context) ([]Member, error) { return Members(ctx, b.config) }

// ask returns a server's answer to the command "srvr".
func (c Config) ask(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	dial := c.wireConfig().Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, memberBytesMax))
	if err != nil && len(answer) == 0 {
		return "", errors.Join(err, ctx.Err())
	}
	return string(answer), nil // even after an error: some servers reset the connection
}

// read parses a server's answer.
func (m *Member) read(answer string) error {
	switch {
	case strings.Contains(answer, "not currently serving requests"):
		return nil
	case !strings.HasPrefix(answer, "Zookeeper version: "):
		first, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
		return fmt.Errorf("it says %.200q to \"srvr\"", cmp.Or(first, "nothing"))
	}
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "Zookeeper version":
			m.Version, _, _ = strings.Cut(value, "-")
			m.Version, _, _ = strings.Cut(m.Version, ",")
		case "Mode":
			m.Mode = value
		}
	}
	return nil
}
