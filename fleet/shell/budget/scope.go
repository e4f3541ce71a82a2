package budget

import (
	"io"
	"sync"
)

// grain is the least a scope asks its account for, so that small amounts need no shared lock.
const grain = 4 << 10

// Scope is what one command or one shell holds: it remembers how much, and gives all of it back
// when it is closed. A nil scope counts nothing. Safe for concurrent use.
type Scope struct {
	account *Account

	mu    sync.Mutex
	held  int64 // asked for and not given back
	taken int64 // of the account: held rounded up
}

// Scope makes an empty scope. A nil account counts nothing.
func (a *Account) Scope() *Scope {
	if a == nil {
		return nil
	}
	return &Scope{account: a}
}

// Take asks for n bytes. After ErrMemory the process is being killed and has only to return.
func (s *Scope) Take(n int64) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if lacks := s.held + n - s.taken; lacks > 0 {
		lacks = (lacks + grain - 1) / grain * grain
		if err := s.account.Take(lacks); err != nil {
			return err
		}
		s.taken += lacks
	}
	s.held += n
	return nil
}

// Give returns n bytes.
func (s *Scope) Give(n int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= min(n, s.held)
	if spare := s.taken - s.held; spare > 16*grain {
		s.account.Give(spare - grain)
		s.taken -= spare - grain
	}
}

// Close gives back everything. The scope can be used again after it.
func (s *Scope) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.Give(s.taken)
	s.held, s.taken = 0, 0
}

// Buffer is a growing run of bytes that is counted. The zero value with a nil scope counts nothing.
// Not safe for concurrent use.
type Buffer struct {
	scope *Scope
	data  []byte
}

// Buffer makes an empty buffer.
func (s *Scope) Buffer() *Buffer { return &Buffer{scope: s} }

// grow makes room for n more bytes. Both the old and the new array count while one is copied.
func (b *Buffer) grow(n int) error {
	if n <= cap(b.data)-len(b.data) {
		return nil
	}
	size := max(len(b.data)+n, min(2*cap(b.data), cap(b.data)+4<<20), 64)
	if err := b.scope.Take(int64(size)); err != nil {
		return err
	}
	next := make([]byte, len(b.data), size)
	copy(next, b.data)
	b.scope.Give(int64(cap(b.data)))
	b.data = next
	return nil
}

// Write adds p. It fails only with ErrMemory.
func (b *Buffer) Write(p []byte) (int, error) {
	if err := b.grow(len(p)); err != nil {
		return 0, err
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// WriteString adds text.
func (b *Buffer) WriteString(text string) (int, error) {
	if err := b.grow(len(text)); err != nil {
		return 0, err
	}
	b.data = append(b.data, text...)
	return len(text), nil
}

// WriteByte adds one byte.
func (b *Buffer) WriteByte(c byte) error {
	if err := b.grow(1); err != nil {
		return err
	}
	b.data = append(b.data, c)
	return nil
}

// Bytes is the content, until the next change.
func (b *Buffer) Bytes() []byte { return b.data }

// Len is the number of bytes in the buffer.
func (b *Buffer) Len() int { return len(b.data) }

// Drop forgets the first n bytes.
func (b *Buffer) Drop(n int) { b.data = b.data[:copy(b.data, b.data[n:])] }

// Truncate forgets all but the first n bytes.
func (b *Buffer) Truncate(n int) { b.data = b.data[:n] }

// Reset empties the buffer and gives its memory back.
func (b *Buffer) Reset() {
	b.scope.Give(int64(cap(b.data)))
	b.data = nil
}

// Cut takes the content out as a string, which stays counted until its holder gives Size of it back.
func (b *Buffer) Cut() (string, error) {
	if err := b.scope.Take(Size(len(b.data))); err != nil {
		return "", err
	}
	text := string(b.data)
	b.data = b.data[:0]
	return text, nil
}

// Fill reads r to its end.
func (b *Buffer) Fill(r io.Reader) error {
	for {
		if err := b.grow(4 << 10); err != nil {
			return err
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// header is what a string costs beside its bytes where a list holds it: its header, room for the list
// to grow, and the allocator's rounding.
const header = 48

// Size is what a string of n bytes in a list counts.
func Size(n int) int64 { return int64(n) + header }

// Sub makes another scope of the same account.
func (s *Scope) Sub() *Scope {
	if s == nil {
		return nil
	}
	return s.account.Scope()
}
