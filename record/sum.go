package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// castagnoli is the polynomial that processors have an instruction for. A checksum is there to find what a disk or a
// cable did; who wants to deceive can write another.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed adds the line, without its end, to the checksum of those before it.
func summed(sum uint32, line []byte) uint32 {
	return crc32.Update(crc32.Update(sum, castagnoli, line), castagnoli, []byte{'\n'})
}

func sumText(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// cutSum takes the checksum out of the line of a mark. ok is false where it has none at its end.
func cutSum(line []byte) (without []byte, sum string, ok bool) {
	const before, after = `,"sum":"`, `"}}`
	at := len(line) - len(before) - 8 - len(after)
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(before)) || !bytes.HasSuffix(line, []byte(after)) {
		return line, "", false
	}
	sum = string(line[at+len(before) : at+len(before)+8])
	return append(append(make([]byte, 0, at+2), line[:at]...), "}}"...), sum, true
}

// A file that was closed ends with a frame that decompressors skip: magic, length, a word of ours, and the CRC-32C of all
// bytes before it.
const trailerSize = 16

var trailerHead = []byte{0x5b, 0x2a, 0x4d, 0x18, 8, 0, 0, 0, 'b', 'r', 't', 'h'}

func trailer(sum uint32) []byte { return binary.BigEndian.AppendUint32(bytes.Clone(trailerHead), sum) }

// errDamaged says that a file is not what was written.
var errDamaged = errors.New("it is not as it was written: the file was damaged")

// summing reads a file and keeps the checksum of all but the last bytes, which may be the trailer.
type summing struct {
	r    io.Reader
	n    int64 // bytes read
	sum  uint32
	last []byte
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.last = append(s.last, p[:n]...)
	if over := len(s.last) - trailerSize; over > 0 {
		s.sum = crc32.Update(s.sum, castagnoli, s.last[:over])
		s.last = append(s.last[:0], s.last[over:]...)
	}
	return n, err
}

// closed says whether the file ends with a trailer, once all of it was read; the error is that it belongs to other bytes.
func (s *summing) closed() (bool, error) {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return false, err
	}
	same := 0
	for i, b := range trailerHead {
		if i < len(s.last) && s.last[i] == b {
			same++
		}
	}
	if same < len(trailerHead)-1 { // one byte may be what was damaged
		return false, nil
	}
	if !bytes.Equal(s.last, trailer(s.sum)) {
		return true, errDamaged
	}
	return true, nil
}
