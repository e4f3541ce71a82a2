package budget

import (
	"bufio"
	"errors"
	"io"
)

// MaxLine is the longest line that commands handle.
const MaxLine = 1 << 20

// ErrLine is what reading a longer line returns.
var ErrLine = errors.New("line too long")

// perByte is what a byte of a line counts: the line, a copy of it as runes, and what a command makes of it.
const perByte = 8

// Lines reads lines of at most MaxLine bytes. What the longest so far takes stays counted until Close.
type Lines struct {
	in    *bufio.Reader
	delim byte
	scope *Scope
	long  []byte
	held  int64
}

// Lines makes a reader of the lines of r that end with delim.
func (s *Scope) Lines(r io.Reader, delim byte) *Lines {
	return &Lines{in: bufio.NewReader(r), delim: delim, scope: s}
}

// Next is the next line with its end, valid until the call after. At the end of the input it returns what is
// left, which may be nothing, and io.EOF.
func (l *Lines) Next() ([]byte, error) {
	line, err := l.in.ReadSlice(l.delim)
	if err != bufio.ErrBufferFull {
		return line, err
	}
	l.long = l.long[:0]
	for err == bufio.ErrBufferFull {
		if len(l.long) >= MaxLine {
			return nil, ErrLine
		}
		if grow := l.add(line); grow != nil {
			return nil, grow
		}
		line, err = l.in.ReadSlice(l.delim)
	}
	if grow := l.add(line); grow != nil {
		return nil, grow
	}
	return l.long, err
}

func (l *Lines) add(part []byte) error {
	if need := len(l.long) + len(part); need > cap(l.long) {
		size := 2 * need
		if err := l.scope.Take(int64(size-cap(l.long)) * perByte); err != nil {
			return err
		}
		l.held += int64(size-cap(l.long)) * perByte
		l.long = append(make([]byte, 0, size), l.long...)
	}
	l.long = append(l.long, part...)
	return nil
}

// Close gives back what the lines took.
func (l *Lines) Close() {
	l.scope.Give(l.held)
	l.long, l.held = nil, 0
}
