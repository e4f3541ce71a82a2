package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-dev/berth/engine"
)

// Bounds on what is read, against files that are not ours.
const (
	maxLine    = 16 << 20 // bytes of one line
	maxChanges = 8 << 20  // of one cycle, or live at the start of a segment
	freely     = 64 << 20 // bytes that any file may unpack to
	mostTimes  = 1000     // its size is what a larger one may unpack to, as for bundles
)

// errInflated says that a file was made to take memory.
var errInflated = errors.New("its content is out of all proportion to its size: it is no file of ours")

// measured reads what a file unpacks to, in proportion to what was read of the file.
type measured struct {
	zip *zstd.Decoder
	raw *summing
	n   int64
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.zip.Read(p)
	if m.n += int64(n); m.n > freely && m.n > mostTimes*m.raw.n {
		return 0, errInflated
	}
	return n, err
}

// lines reads a segment line by line. A file that ends in the middle of one, as a crash leaves it and as one that is
// being written may look, ends with its last whole line.
type lines struct {
	file   *os.File
	raw    *summing
	zip    *zstd.Decoder
	scan   *bufio.Scanner
	n      int    // lines read
	sum    uint32 // of lines read
	format int    // as the head says; 0: it was not read
	values int    // the same, of the version of the values
	torn   bool   // the end of the file is missing
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l, err := newLines(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	l.file = f
	return l, nil
}

func newLines(r io.Reader) (*lines, error) {
	raw := &summing{r: r}
	zip, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	l := &lines{raw: raw, zip: zip, scan: bufio.NewScanner(&measured{zip: zip, raw: raw})}
	l.scan.Buffer(make([]byte, 64<<10), maxLine)
	l.scan.Split(l.split)
	return l, nil
}

// split is bufio.ScanLines but for a last line without an end, which it leaves out.
func (l *lines) split(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		l.torn = true
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// next returns the next line, valid until the call after, and io.EOF after the last.
func (l *lines) next() ([]byte, error) {
	if l.scan.Scan() {
		l.n++
		return l.checked(l.scan.Bytes())
	}
	err := l.scan.Err()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		l.torn, err = true, nil
	}
	if err == nil {
		err = l.ended()
	}
	if err != nil {
		return nil, fmt.Errorf("after line %d: %w", l.n, err)
	}
	return nil, io.EOF
}

// checked holds the line to the checksum, where it has one.
func (l *lines) checked(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(markPrefix)) {
		l.sum = summed(l.sum, b)
		return b, nil
	}
	without, sum, ok := cutSum(b)
	l.sum = summed(l.sum, without)
	if ok && sum != sumText(l.sum) || !ok && l.format >= 2 {
		return nil, fmt.Errorf("line %d or one before it: %w", l.n, errDamaged)
	}
	return b, nil
}

// ended holds the whole file to its checksum, if it was closed. One that was not ends in the middle.
func (l *lines) ended() error {
	closed, err := l.raw.closed()
	switch {
	case err != nil:
		return err
	case closed && l.torn:
		return errDamaged
	case !closed && l.format >= 2:
		l.torn = true // between its last line and its checksum
	}
	return nil
}

func (l *lines) close() {
	l.zip.Close()
	if l.file != nil {
		l.file.Close()
	}
}

// decode reads the line into one that has exactly one field set.
func (l *lines) decode(b []byte) (line, error) {
	var v line
	var err error
	if l.values > 0 && l.values < renamed {
		v, err = decodeOlder(b)
	} else {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		return v, fmt.Errorf("line %d: %w", l.n, err)
	}
	if l.values > 0 && l.values < byClaims {
		sayByClaims(v.Live)
		sayByClaims(v.Change)
	}
	set := 0
	for _, is := range []bool{v.Segment != nil, v.Live != nil, v.Change != nil, v.Cycle != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return v, fmt.Errorf("line %d: it is none of segment, live, change and cycle", l.n)
	}
	return v, nil
}

// head reads the first line. io.EOF says that the file ends before its end.
func (l *lines) head() (head, error) {
	b, err := l.next()
	if err != nil {
		return head{}, err
	}
	v, err := l.decode(b)
	switch {
	case err != nil:
		return head{}, err
	case v.Segment == nil:
		return head{}, errors.New("line 1: it is not the head of a segment")
	case v.Segment.Format > Format || v.Segment.Values > engine.SnapshotVersion:
		return head{}, fmt.Errorf("berth %s wrote it in a format that is newer than this berth: use that one", v.Segment.Berth)
	}
	l.format, l.values = v.Segment.Format, v.Segment.Values
	return *v.Segment, nil
}

// entry is one cycle as it was recorded.
type entry struct {
	live    []engine.Change // before the first cycle of a segment alone
	changes []engine.Change
	mark
}

// entry reads the lines of one cycle, and io.EOF after the last whole one.
func (l *lines) entry() (e entry, err error) {
	for {
		b, err := l.next()
		if err != nil {
			return entry{}, err
		}
		v, err := l.decode(b)
		switch {
		case err != nil:
			return entry{}, err
		case v.Cycle != nil:
			e.mark = *v.Cycle
			return e, nil
		case v.Change != nil:
			e.changes = append(e.changes, *v.Change)
		case v.Live != nil:
			e.live = append(e.live, *v.Live)
		default:
			return entry{}, fmt.Errorf("line %d: a second head", l.n)
		}
		if len(e.changes)+len(e.live) > maxChanges {
			return entry{}, fmt.Errorf("line %d: more than %d changes in one cycle", l.n, maxChanges)
		}
	}
}
