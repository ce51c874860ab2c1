package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Config says how to connect. Address, Timeout and Now are needed.
type Config struct {
	// Address is "host:port".
	Address string
	// Dial opens the stream; nil is plain TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Session and Password resume a session; zero asks for a new one.
	Session  int64
	Password []byte
	// Timeout is the session timeout to ask for.
	Timeout time.Duration
	// LastZxid is the last transaction seen before. A server that is behind it
	// refuses the connection, so that what was read never goes back in time.
	LastZxid int64
	// Auth are the credentials, in order.
	Auth []Auth
	// Pings is how many pings go into a session timeout. Zero is 3.
	Pings int
	// Pinging, if set, is asked before each ping; when it says no, none is sent,
	// and a caller that is stuck loses its session.
	Pinging func() bool
	// Events receives the events of watches, in the goroutine that also calls
	// what was given to Send. It must not block. Nil drops them.
	Events func(Event)
	// Answered, if set, is told when a request, pings included, was handed over
	// for sending, and when its answer came, by Now. It must not block.
	Answered func(sent, received time.Duration)
	// Replied, if set, is told the zxid of each reply, in the goroutine that also
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

// ReplyBytesMax bounds a message from the server. A server bounds only what it is
// sent; what it sends is as large as what was asked for.
const ReplyBytesMax = 256 << 20

// handshakeBytesMax bounds the first message of a server.
const handshakeBytesMax = 4 << 10

// special xids, with which the server marks what is no ordinary reply.
const (
	xidEvent = -1
	xidPing  = -2
	xidAuth  = -4
)

// Dial connects, and starts or resumes a session. ctx bounds that alone.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	if config.Pings == 0 {
		config.Pings = 3
	}
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

// shakeHands does what comes before the first request.
func shakeHands(ctx context.Context, socket net.Conn, config Config) (*Conn, error) {
	// A context that ends interrupts what waits on the socket.
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
	e.bool(false) // not content with a read-only server
	if err := writeFrame(socket, e.buf); err != nil {
		return nil, err
	}
	answer, err := readFrame(socket, handshakeBytesMax)
	if err != nil {
		return nil, err
	}
	c, err := newConn(socket, config, NewDecoder(answer))
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
	case d.Err() != nil:
		return nil, d.Err()
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
	d := NewDecoder(answer)
	h := readHeader(d)
	switch {
	case d.Err() != nil:
		return d.Err()
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

// readChunk is how much memory a frame gets before so much of it has come, so
// that a length that is a lie costs nothing.
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
