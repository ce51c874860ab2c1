package zookeeper

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Scheme is the beginning of an ensemble's address; see ParseAddress.
const Scheme = "zookeeper://"

// serverPort is the default port.
const serverPort = ":2181"

// ParseAddress parses an address such as
//
//	zookeeper://host:port,host:port/chroot?tick_time=2s&message_bytes=4194304&acl=sasl:windlass:cdrwa
//
// into Servers, Chroot, TickTime, MessageBytes and ACL of a Config. Only a server is
// required; one without a port gets 2181, and acl may appear several times. There is no
// place for a password, because others can read a command line.
func ParseAddress(address string) (Config, error) {
	invalid := func(format string, args ...any) error {
		return broker.NewError("open", address, broker.ErrInvalid, fmt.Errorf(format, args...))
	}
	rest, ok := strings.CutPrefix(address, Scheme)
	if !ok {
		return Config{}, invalid("the address begins with %s", Scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	servers, chroot, _ := strings.Cut(rest, "/")
	var config Config
	for server := range strings.SplitSeq(servers, ",") {
		if strings.LastIndexByte(server, ':') <= strings.LastIndexByte(server, ']') {
			server += serverPort
		}
		config.Servers = append(config.Servers, server)
	}
	if chroot = strings.Trim(chroot, "/"); chroot != "" {
		config.Chroot = "/" + chroot
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return config, invalid("settings %q: %w", query, err)
	}
	for name, all := range values {
		last := all[len(all)-1]
		switch name {
		case "tick_time":
			config.TickTime, err = time.ParseDuration(last)
		case "message_bytes":
			config.MessageBytes, err = strconv.Atoi(last)
		case "acl":
			config.ACL = slices.Clone(all)
		default:
			return config, invalid("setting %q is not known; acl, message_bytes and tick_time are", name)
		}
		if err != nil {
			return config, invalid("%s %q: %w", name, last, err)
		}
	}
	return config, config.validate()
}
