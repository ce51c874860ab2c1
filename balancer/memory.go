package balancer

// Memory is a Reporter of main memory, in bytes: that of the machine or that
// which a control group of this process may use, whichever is closer to its end.
// It exists for Linux only.
//
// Of the machine it counts what is not MemAvailable, so that caches which the
// kernel would give up do not count. Of a control group, of version 1 or 2, and
// of each one above it, it counts the usage without the inactive file cache,
// against the hard limit. A limit that is not below the machine's memory is
// none. What swap has is left out.
type Memory struct{ source memorySource }

var _ Reporter = (*Memory)(nil)

// NewMemory makes a reporter of this process's memory and reads it once. On
// other systems than Linux it is an error, errors.ErrUnsupported.
func NewMemory() (*Memory, error) { return memoryAt("/") }

// memoryAt is NewMemory for a system whose files are below root.
func memoryAt(root string) (*Memory, error) {
	source, err := openMemory(root)
	if err != nil {
		return nil, err
	}
	m := &Memory{source: source}
	if _, _, err := m.Used(); err != nil {
		return nil, err
	}
	return m, nil
}

// Used implements Reporter.
func (m *Memory) Used() (used, total uint64, err error) { return m.source.used() }

// String implements Reporter.
func (*Memory) String() string { return "bytes" }
