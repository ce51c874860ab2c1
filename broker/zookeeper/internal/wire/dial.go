package wire

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Config configures a connection. Address, Timeout and Now are required.
type Config struct {
	// Address is "host:port".
	Address string
	// Dial opens the stream; nil means plain TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Session and Password resume a session; zero requests a new one.
	Session  int64
	Password []byte
	// Timeout is the session timeout to request.
	Timeout time.Duration
	// LastZxid is the last transaction seen before. A server that is behind it
	// refuses the connection, so that reads never go back in time.
	LastZxid int64
	// Auth are the credentials, in order.
	Auth []Auth
	// Pings is the number of pings per session timeout. Zero means 3.
	Pings int
	// Pinging, if set, is called before each ping; if it returns false, none is sent,
	// so that a caller that hangs loses its session.
	Pinging func() bool
	// Events receives the events of watches, in the goroutine that also calls the
	// functions passed to Send. It must not block. Nil drops them.
	Events func(Event)
	// Answered, if set, is called for each answer, pings included, with the times, by
	// Now, when the request was sent and the answer received. It must not block.
	Answered func(sent, received time.Duration)
	// Replied, if set, is called with the zxid of each reply, in the goroutine that also
	// delivers events and just before the reply: the events of all changes up to it
	// have been delivered, and of none after it. It must not block.
	Replied func(zxid int64)
	// Now is the clock.
	Now func() time.Duration
}

// Auth is one credential.
type Auth struct {
	Scheme string
	Data   []byte
}

// ReplyBytesMax limits a message from the server. A server does not limit the size of its
// own replies.
const ReplyBytesMax = 256 << 20

// handshakeBytesMax limits the first message of a server.
const handshakeBytesMax = 4 << 10

// The xids of messages that are not ordinary replies.
const (
	xidEvent = -1
	xidPing  = -2
	xidAuth  = -4
)

// Dial connects, and starts or resumes a session. ctx limits only that.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	config.Pings = cmp.Or(config.Pings, 3)
	socket, err := dial(ctx, "tcp", config.Address)
	if err != nil {
		return nil, err
	}
	c, err := shakeHands(ctx, socket, config)
	if err != nil {
		err = errors.Join(err, ctx.Err())
		_ = socket.Close()
		return nil, fmt.Errorf("%s: %w", config.Address, err)
	}
	c.tasks.Go(c.write)
	c.tasks.Go(c.read)
	return c, nil
}

// shakeHands starts or resumes the session, and authenticates.
func shakeHands(ctx context.Context, socket net.Conn, config Config) (*Conn, error) {
	// The end of the context interrupts reads and writes.
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	e := &Encoder{}
	e.int32(0) // the version of the protocol
	e.int64(config.LastZxid)
	e.int32(int32(config.Timeout.Milliseconds()))
	e.int64(config.Session)
	password := config.Password
	if len(password) == 0 {
		password = make([]byte, 16)
	}
	e.bytes(password)
	e.bool(false) // a read-only server will not do
	if err := writeFrame(socket, e.buf); err != nil {
		return nil, err
	}
	answer, err := readFrame(socket, handshakeBytesMax)
	if err != nil {
		return nil, err
	}
	c, err := newConn(socket, config, &Decoder{buf: answer})
	if err != nil {
		return nil, err
	}
	for _, auth := range config.Auth {
		if err := authenticate(socket, auth); err != nil {
			return nil, err
		}
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return c, nil
}

func newConn(socket net.Conn, config Config, d *Decoder) (*Conn, error) {
	d.int32() // the version of the protocol
	c := &Conn{
		socket: socket, config: config, wake: make(chan struct{}, 1), ended: make(chan struct{}), stop: make(chan struct{}),
		timeout: time.Duration(d.int32()) * time.Millisecond, session: d.int64(), password: d.bytes(),
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case c.timeout <= 0:
		return nil, ErrExpired
	}
	c.heard = config.Now()
	return c, nil
}

func authenticate(socket net.Conn, auth Auth) error {
	e := &Encoder{}
	e.int32(xidAuth)
	e.int32(opAuth)
	e.int32(0)
	e.string(auth.Scheme)
	e.bytes(auth.Data)
	if err := writeFrame(socket, e.buf); err != nil {
		return err
	}
	answer, err := readFrame(socket, handshakeBytesMax)
	if err != nil {
		return err
	}
	d := &Decoder{buf: answer}
	h := readHeader(d)
	switch {
	case d.err != nil:
		return d.err
	case h.xid != xidAuth:
		return fmt.Errorf("%w: reply %d to an authentication", errDamaged, h.xid)
	case h.code != CodeOK:
		return fmt.Errorf("%w: scheme %s: %w", ErrAuth, auth.Scheme, h.code)
	}
	return nil
}

func writeFrame(w io.Writer, body []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// readChunk is the memory that is allocated before that much of a frame has arrived, so
// that a false length costs little.
const readChunk = 1 << 20

func readFrame(r io.Reader, bytesMax int) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(prefix[:])))
	if n < 0 || n > bytesMax {
		return nil, fmt.Errorf("%w: a length of %d bytes; the limit is %d", errDamaged, n, bytesMax)
	}
	frame := make([]byte, 0, min(n, readChunk))
	for len(frame) < n {
		have := len(frame)
		want := min(n, max(2*have, readChunk))
		frame = append(frame, make([]byte, want-have)...)
		if _, err := io.ReadFull(r, frame[have:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}
