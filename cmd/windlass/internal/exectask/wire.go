package exectask

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// protocol is the version that hello carries. Node and supervisor are one
// binary, so it should never differ.
const protocol = 2

// kind names a message.
type kind string

// Messages of the node.
const (
	kindStart    kind = "start"
	kindStop     kind = "stop"
	kindDeadline kind = "deadline"
	kindPing     kind = "ping"
	kindSample   kind = "sample" // and the answer
)

// Messages of the supervisor.
const (
	kindHello   kind = "hello"
	kindStarted kind = "started"
	kindExited  kind = "exited"
	kindError   kind = "error"
	kindLog     kind = "log" // output is missing in the log, once for each run
	kindPong    kind = "pong"
)

// message is one frame: four bytes of length, big endian, and this as JSON. To close, a
// node ends the stream, as it does when it dies.
type message struct {
	Kind    kind          `json:"kind"`
	Run     string        `json:"run,omitempty"`
	Version int           `json:"version,omitempty"` // hello
	Start   *startOrder   `json:"start,omitempty"`   // start
	Grace   time.Duration `json:"grace,omitempty"`   // stop, zero means SIGKILL at once
	Until   *deadline     `json:"until,omitempty"`   // deadline
	Pid     int           `json:"pid,omitempty"`     // started
	Exit    *Result       `json:"exit,omitempty"`    // exited
	Sample  *sample       `json:"sample,omitempty"`  // sample, of the supervisor
	Failure failure       `json:"failure,omitempty"` // error
	Text    string        `json:"text,omitempty"`    // error, log
}

// startOrder is what the supervisor needs to start a run. Paths, arguments and variables
// are bytes, because JSON text would replace those that are not UTF-8.
type startOrder struct {
	Path   []byte        `json:"path"`
	Argv   [][]byte      `json:"argv"`
	Env    [][]byte      `json:"env"`
	Dir    []byte        `json:"dir,omitempty"`
	Log    []byte        `json:"log,omitempty"` // file, empty means no log
	LogMax int64         `json:"log_max"`
	Header string        `json:"header"` // first line of the run in the log
	Tail   int           `json:"tail"`
	Grace  time.Duration `json:"grace"`
	Stdio  bool          `json:"stdio,omitempty"` // the supervisor has descriptors for it, see stdioFD
	User   *User         `json:"user,omitempty"`
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// encode builds one frame.
func encode(m message) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(body) > frameMax {
		return nil, fmt.Errorf("%s message is %d bytes: at most %d", m.Kind, len(body), frameMax)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	return append(frame, body...), nil
}

// decode reads one frame; io.EOF only between frames.
func decode(r io.Reader) (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > frameMax {
		return message{}, fmt.Errorf("frame of %d bytes: at most %d", size, frameMax)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, fmt.Errorf("frame cut short: %w", err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return message{}, fmt.Errorf("frame: %w", err)
	}
	return m, nil
}

// outbox queues messages so that neither side waits for the other: a frozen node must not
// keep the supervisor from killing, nor a frozen supervisor the node from fencing. Its
// length is bounded by the live runs and by the silence that the node tolerates.
type outbox struct {
	mu     sync.Mutex
	queue  []message
	closed bool
	wake   chan struct{} // holds one token when there is news
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put appends m. A deadline replaces one at the end of the queue.
func (o *outbox) put(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if n := len(o.queue); n > 0 && m.Kind == kindDeadline && o.queue[n-1].Kind == kindDeadline {
		o.queue[n-1] = m
	} else {
		o.queue = append(o.queue, m)
	}
	o.signal()
}

// close lets drain return once everything is written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) take() (batch []message, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, o.queue = o.queue, nil
	return batch, o.closed
}

// drain writes until the outbox is closed and empty, or the writer fails.
func (o *outbox) drain(w io.Writer) error {
	for {
		batch, closed := o.take()
		for _, m := range batch {
			frame, err := encode(m)
			if err != nil {
				return err
			}
			if _, err := w.Write(frame); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			continue
		}
		if closed {
			return nil
		}
		<-o.wake
	}
}
